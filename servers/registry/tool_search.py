"""Find registered tools by words, in any script and case, on any database."""

import unicodedata
from typing import Any

import sqlalchemy as sa

from toolweave.servers.registry.schema import TOOLS
from toolweave.tool_config import ToolConfig

_MOST_WORDS = 16
# A pattern of SQLite's LIKE may have 50 000 bytes.
_LONGEST_QUERY = 1_000


def searched_texts(config: ToolConfig) -> dict[str, str]:
    """Give the columns that a search looks at; no word goes over the end of a line."""
    called = (config.tool_id, config.name)
    every = (*called, config.description, config.api.path, config.api.method)
    return {"name_text": "\n".join(map(_plain, called)), "search_text": "\n".join(map(_plain, every))}


def matching(query: str | None) -> tuple[list[sa.ColumnElement[bool]], list[sa.ColumnElement[Any]]]:
    """Give the conditions and the order of a search: an exact id, then all words in id and name, then the rest.

    Every word must occur somewhere: the first 16 words of the first 1 000 characters count. The order is the same
    every time.
    """
    text = _plain((query or "")[:_LONGEST_QUERY])
    words = text.split()[:_MOST_WORDS]
    if not words:
        return [], [TOOLS.c.folded_id.asc()]
    in_name = sa.and_(*(TOOLS.c.name_text.contains(word, autoescape=True) for word in words))
    rank = sa.case((TOOLS.c.folded_id == text.strip(), 0), (in_name, 1), else_=2)
    return [TOOLS.c.search_text.contains(word, autoescape=True) for word in words], [rank, TOOLS.c.folded_id.asc()]


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # A NUL would end a pattern; half a surrogate pair is no text that a database takes.
    return folded.replace("\0", " ").encode("utf-8", "replace").decode()
