"""Find todos by words: SQLite's full-text index first, plain containment where it is absent or finds nothing."""

import sqlalchemy as sa

from toolweave.servers.todo.schema import FULL_TEXT, TODOS

_MOST_WORDS = 16
# How much a word counts in the title, the description and the tags.
_WEIGHTS = (10.0, 2.0, 5.0)


def by_index(query: str) -> sa.Select[tuple[object, ...]] | None:
    """Select the todos that have every word of the query, best first; None when the query has no word.

    Each word is quoted, so that nothing in it is full-text syntax, and matches words that begin with it.
    """
    words = [word for word in _words(query) if any(character.isalnum() for character in word)]
    if not words:
        return None
    expression = " AND ".join('"' + word.replace('"', '""') + '"*' for word in words)
    matches = sa.text("todos_fts MATCH :expression").bindparams(expression=expression)
    rank = sa.func.bm25(sa.literal_column("todos_fts"), *_WEIGHTS)
    joined = sa.join(FULL_TEXT, TODOS, FULL_TEXT.c.rowid == TODOS.c.id)
    return sa.select(TODOS).select_from(joined).where(matches).order_by(rank, TODOS.c.id)


def by_containment(query: str) -> sa.Select[tuple[object, ...]]:
    """Select the todos that contain every word of the query anywhere, in the order of their ids; any database."""
    searched = (TODOS.c.title, TODOS.c.description, TODOS.c.tags)
    conditions = [sa.or_(*(column.icontains(word, autoescape=True) for column in searched)) for word in _words(query)]
    return sa.select(TODOS).where(*conditions).order_by(TODOS.c.id)


def _words(query: str) -> list[str]:
    return query.split()[:_MOST_WORDS]
