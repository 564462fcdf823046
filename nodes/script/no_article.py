"""Say that a page gives no article."""


class NoArticle(Exception):  # not of the tree: it never leaves the process that reads pages
    """A page gives no article; the text goes on after "The page …" and ends with what to do."""
