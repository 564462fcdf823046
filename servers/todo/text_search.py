"""Find todos by words: SQLite's full-text index first, plain containment where it is absent or finds nothing."""

import unicodedata

import sqlalchemy as sa

from toolweave.servers.todo.schema import FULL_TEXT, TODOS

_MOST_WORDS = 16
# How much a word counts in the title, the description and the tags.
_WEIGHTS = (10.0, 2.0, 5.0)
_ACCENTS = "[\u0300-\u036f]"


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


def by_containment(query: str, *, without_accents: bool = False) -> sa.Select[tuple[object, ...]]:
    """Select the todos that contain every word of the query anywhere, those with all of them in the title first.

    Any database can do so; `without_accents` is for PostgreSQL, to which an accent then matters as little as to the
    index of SQLite.
    """
    contains = _contains_folded if without_accents else _contains
    searched = (TODOS.c.title, TODOS.c.description, TODOS.c.tags)
    words = _words(query)
    conditions = [sa.or_(*(contains(column, word) for column in searched)) for word in words]
    in_title = sa.and_(sa.true(), *(contains(TODOS.c.title, word) for word in words))
    return sa.select(TODOS).where(*conditions).order_by(sa.case((in_title, 0), else_=1), TODOS.c.id)


def _contains(column: sa.Column[str], word: str) -> sa.ColumnElement[bool]:
    return column.icontains(word, autoescape=True)


def _contains_folded(column: sa.Column[str], word: str) -> sa.ColumnElement[bool]:
    plain = sa.func.regexp_replace(sa.func.pg_catalog.normalize(column, "NFKD"), _ACCENTS, "", "g")
    # Texts that have accents have letters of several bytes; looking for them takes ten times what the rest does.
    is_ascii = sa.func.octet_length(column) == sa.func.length(column)
    return sa.func.strpos(sa.func.lower(sa.case((is_ascii, column), else_=plain)), _folded(word)) > 0


def _folded(word: str) -> str:
    decomposed = unicodedata.normalize("NFKD", word)
    # A word that is nothing but accents is looked for as it is.
    return "".join(letter for letter in decomposed if not 0x300 <= ord(letter) < 0x370).lower() or word


def _words(query: str) -> list[str]:
    return query.split()[:_MOST_WORDS]
