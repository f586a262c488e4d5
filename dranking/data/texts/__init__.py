"""Collections of texts as sparse vectors, and preferences over them."""
