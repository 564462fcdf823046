"""Define how registered tools are stored: tables, rows, ids and search columns (W-01)."""

import asyncio
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any

import sqlalchemy as sa
from loguru import logger
from pydantic import ValidationError
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.config.documents import problems_in
from toolweave.servers.databases.engine import DatabaseKind
from toolweave.tool_config import RESERVED_IDS, ToolConfig

VERSION = 1
METADATA = sa.MetaData()
# Sorted by code point, as always in SQLite: PostgreSQL may sort by a language's collation.
_ID_TYPE = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
# The search columns come before the document, so that a search does not read the documents.
TOOLS = sa.Table(
    "registered_tools",
    METADATA,
    sa.Column("tool_id", sa.Text, primary_key=True),
    sa.Column("folded_id", _ID_TYPE, nullable=False, unique=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    *(
        sa.Column(name, sa.Text, nullable=False)
        for name in ("created_at", "updated_at", "name_text", "search_text", "document")
    ),
)
# One row. Every write increments it first, so that no revision repeats and writers run one at a time.
REVISIONS = sa.Table("tool_registry_revision", METADATA, sa.Column("last", sa.BigInteger, nullable=False))
SCHEMA_VERSION = sa.Table("tool_registry_schema_version", METADATA, sa.Column("version", sa.Integer, nullable=False))


async def create_tables(connection: AsyncConnection) -> None:
    """Create the tables."""
    await connection.run_sync(METADATA.create_all)
    await connection.execute(REVISIONS.insert().values(last=0))


TOOLS_DATABASE = DatabaseKind(
    name="tool registry",
    setting="TOOLWEAVE_TOOLS_DATABASE_URL",
    version=VERSION,
    version_table=SCHEMA_VERSION,
    create=create_tables,
    synchronous="FULL",
)
MAX_ID_LENGTH = 64
_NOT_ID_CHARS = re.compile(r"[^a-z0-9]+")


def make_tool_id(name: str) -> str:
    """Return a tool id for a name in any script; if no letter fits into an id, the name's hash."""
    letters = unicodedata.normalize("NFKD", name).casefold().encode("ascii", "ignore").decode()
    tool_id = _NOT_ID_CHARS.sub("_", letters)[:MAX_ID_LENGTH].strip("_")
    if tool_id in RESERVED_IDS:
        return f"{tool_id}-2"
    return tool_id or f"tool_{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:12]}"


def numbered_ids(tool_id: str) -> Iterator[str]:
    """Yield an id and its numbered variants without end: get_user, get_user-2, get_user-3 and so on."""
    yield tool_id
    # `make_tool_id` numbers a reserved id already: import-2, import-3.
    if tool_id.removesuffix("-2") in RESERVED_IDS:
        tool_id = tool_id.removesuffix("-2")
    for number in count(2):
        ending = f"-{number}"
        yield tool_id[: MAX_ID_LENGTH - len(ending)] + ending


def fold_id(tool_id: str) -> str:
    """Return the form that must be unique among tools, because `Get_User` and `get_user` are easily confused."""
    return tool_id.lower()


def format_ids(tool_ids: Sequence[str], max_ids: int = 20) -> str:
    """Return the first `max_ids` ids for a sentence, with the number of further ones."""
    more = len(tool_ids) - max_ids
    return ", ".join(tool_ids[:max_ids]) + (f" and {more} more" if more > 0 else "")


_MAX_WORDS = 16
# SQLite's LIKE allows patterns of 50 000 bytes.
_MAX_QUERY_LENGTH = 1_000


def search_columns(config: ToolConfig) -> dict[str, str]:
    """Return the values of the search columns, one text per line so that no word spans two of them."""
    names = (config.tool_id, config.name)
    texts = (*names, config.description, config.api.path, config.api.method)
    return {"name_text": "\n".join(map(_fold_text, names)), "search_text": "\n".join(map(_fold_text, texts))}


def search_clauses(query: str | None) -> tuple[list[sa.ColumnElement[bool]], list[sa.ColumnElement[Any]]]:
    """Return the conditions and the stable order of a search: an exact id, then all words in id or name, then the rest.

    Every word must occur; only the first 16 words of the first 1 000 characters count.
    """
    text = _fold_text((query or "")[:_MAX_QUERY_LENGTH])
    words = text.split()[:_MAX_WORDS]
    if not words:
        return [], [TOOLS.c.folded_id.asc()]
    in_name = sa.and_(*(TOOLS.c.name_text.contains(word, autoescape=True) for word in words))
    rank = sa.case((TOOLS.c.folded_id == text.strip(), 0), (in_name, 1), else_=2)
    return [TOOLS.c.search_text.contains(word, autoescape=True) for word in words], [rank, TOOLS.c.folded_id.asc()]


def _fold_text(text: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    # A NUL would end a pattern; databases refuse lone surrogates.
    return folded.replace("\0", " ").encode("utf-8", "replace").decode()


_ROWS_PER_BATCH = 20
# A run reads its tools several times, and parsing a document takes many times as long as fetching it.
_MAX_CACHED_CONFIGS = 500
_MAX_CACHED_LENGTH = 32_768


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A stored tool; times are ISO 8601 texts in UTC.

    `revision` grows with every change and is never reused for an id, even after the tool was deleted.
    """

    config: ToolConfig
    revision: int
    created_at: str
    updated_at: str


def tool_row(config: ToolConfig) -> dict[str, Any]:
    """Return a tool's row, without revision and times."""
    document = json.dumps(config.model_dump(mode="json"), separators=(",", ":"))
    ids = {"tool_id": config.tool_id, "folded_id": fold_id(config.tool_id)}
    return ids | search_columns(config) | {"document": document}


class RowReader:
    """Parse rows; skip a document that is not a valid ToolConfig, with one warning for each of its revisions."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, int]] = set()

    async def read_tools(self, rows: Sequence[Mapping[str, Any]]) -> list[RegisteredTool]:
        """Return the readable tools, yielding to the event loop between batches."""
        found: list[RegisteredTool] = []
        for start in range(0, len(rows), _ROWS_PER_BATCH):
            if start:
                await asyncio.sleep(0)
            found += [tool for row in rows[start : start + _ROWS_PER_BATCH] if (tool := self._read_tool(row))]
        return found

    def _read_tool(self, row: Mapping[str, Any]) -> RegisteredTool | None:
        try:
            parse = _parse_config if len(row["document"]) <= _MAX_CACHED_LENGTH else _parse_config.__wrapped__
            config = parse(row["document"])
            if config.tool_id != row["tool_id"]:
                raise ValueError("its tool_id differs from its row's")
        except (ValueError, RecursionError) as error:
            self._warn(row["tool_id"], row["revision"], error)
            return None
        return RegisteredTool(config, row["revision"], row["created_at"], row["updated_at"])

    def _warn(self, tool_id: str, revision: int, error: Exception) -> None:
        if (tool_id, revision) not in self._warned:
            self._warned.add((tool_id, revision))
            logger.warning(
                "The registered tool {} is skipped: this version of Toolweave cannot read its configuration ({}). "
                "Delete it and register it again.",
                tool_id,
                _describe_error(error),
            )


@lru_cache(maxsize=_MAX_CACHED_CONFIGS)
def _parse_config(document: str) -> ToolConfig:
    """Parse a document; equal texts share one configuration, which must not be changed."""
    return ToolConfig.from_stored(json.loads(document))


def _describe_error(error: Exception) -> str:
    match error:
        case ValidationError():
            return "; ".join(f"{'.'.join(map(str, place))} {expected}" for place, expected in problems_in(error)[:5])
        case json.JSONDecodeError():
            return "it is not valid JSON"
        case _:
            return str(error)
