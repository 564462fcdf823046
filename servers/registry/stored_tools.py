"""Write tools as rows of the database, and read them from there."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loguru import logger
from pydantic import ValidationError

from toolweave.config.problems import sentences
from toolweave.servers.registry.tool_ids import folded
from toolweave.servers.registry.tool_search import searched_texts
from toolweave.tool_config import ToolConfig

_AT_ONCE = 20
# A run reads its tools in several stages, and reading one costs many times what looking it up does.
_MOST_REMEMBERED = 500
_LONGEST_REMEMBERED = 32_768


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool as it is stored; times are ISO 8601 texts in UTC.

    `revision` grows with every change and never comes twice for an id, not even after the tool was deleted.
    """

    config: ToolConfig
    revision: int
    created_at: str
    updated_at: str


def row_of(config: ToolConfig) -> dict[str, Any]:
    """Give the columns of a tool, without revision and times."""
    document = json.dumps(config.model_dump(mode="json"), separators=(",", ":"))
    ids = {"tool_id": config.tool_id, "folded_id": folded(config.tool_id)}
    return ids | searched_texts(config) | {"document": document}


class RowReader:
    """Read rows; a document that is no ToolConfig any more is left out, with one warning for each revision of it."""

    def __init__(self) -> None:
        self._told: set[tuple[str, int]] = set()
        self._remembered: dict[str, ToolConfig] = {}

    async def tools(self, rows: Sequence[Mapping[str, Any]]) -> list[RegisteredTool]:
        """Read the tools that can be read, letting others have the event loop in between."""
        found: list[RegisteredTool] = []
        for start in range(0, len(rows), _AT_ONCE):
            if start:
                await asyncio.sleep(0)
            found += [tool for row in rows[start : start + _AT_ONCE] if (tool := self._tool(row))]
        return found

    def _tool(self, row: Mapping[str, Any]) -> RegisteredTool | None:
        try:
            config = self._config(row["document"])
            if config.tool_id != row["tool_id"]:
                raise ValueError("it has another tool_id than its row")
        except (ValueError, RecursionError) as error:
            self._warn(row["tool_id"], row["revision"], error)
            return None
        return RegisteredTool(config, row["revision"], row["created_at"], row["updated_at"])

    def _config(self, document: str) -> ToolConfig:
        """Read a document; the same text gives the same configuration, which nobody changes."""
        if (known := self._remembered.get(document)) is not None:
            return known
        config = ToolConfig.stored(json.loads(document))
        if len(document) <= _LONGEST_REMEMBERED:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[document] = config
        return config

    def _warn(self, tool_id: str, revision: int, error: Exception) -> None:
        if (tool_id, revision) not in self._told:
            self._told.add((tool_id, revision))
            logger.warning(
                "The registered tool {} is left out: this Toolweave cannot read what is stored of it ({}). "
                "Delete it and register it again.",
                tool_id,
                _problem(error),
            )


def _problem(error: Exception) -> str:
    match error:
        case ValidationError():
            return "; ".join(f"{'.'.join(map(str, place))} {expected}" for place, expected in sentences(error)[:5])
        case json.JSONDecodeError():
            return "it is no JSON"
        case _:
            return str(error)
