"""Labels of documents from clicks, with the bias of positions taken out."""
