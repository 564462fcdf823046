"""Say that a page gives no article."""


class NoArticle(Exception):  # not of the tree: extraction makes a FetchFailed of it
    """A page gives no article; the text goes on after "The page …" and ends with what to do."""
