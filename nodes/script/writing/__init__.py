"""Write a script of an article, and check it."""
