"""Models in the forms that search engines, databases and services score with."""
