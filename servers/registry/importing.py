"""Write many tools in one transaction: all of them, or none."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from toolweave.errors import Conflict
from toolweave.servers.registry.schema import TOOLS
from toolweave.servers.registry.taken_ids import portions, taken
from toolweave.servers.registry.tool_ids import listed

OnConflict = Literal["error", "replace", "skip"]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """The ids of an import by what became of them, each list in the order of the import."""

    created: list[str]
    replaced: list[str]
    skipped: list[str]


def refuse_twins(tool_ids: Iterable[str], folded_ids: Iterable[str]) -> None:
    """Refuse ids that are equal but for case: which one is meant cannot be told. Raises Conflict."""
    counts = Counter(folded_ids := list(folded_ids))
    if twins := [tool_id for tool_id, key in zip(tool_ids, folded_ids, strict=True) if counts[key] > 1]:
        raise Conflict(f"Tool ids come more than once in what is to be registered: {listed(twins)}.")


async def refuse_changed(connection: AsyncConnection, revisions: Mapping[str, int]) -> None:
    """Refuse what was made of tools that have other revisions by now, or are gone. Raises Conflict."""
    there = {row["tool_id"]: row["revision"] for row in (await taken(connection, revisions)).values()}
    if changed := [tool_id for tool_id, revision in revisions.items() if there.get(tool_id) != revision]:
        raise Conflict(f"Others have changed {listed(changed)} meanwhile; nothing was stored. Please try again.")


async def write_all(
    connection: AsyncConnection, rows: Sequence[Row], times: Mapping[str, Any], on_conflict: OnConflict
) -> ImportReport:
    """Write rows that have the columns of `row_of`; `times` are the revision and the times that new ones get.

    A tool that is replaced keeps the time it was created.

    Raises:
        Conflict: ids are taken, and `on_conflict` is "error"; or taken by ones of other case, and it is "replace".
    """
    there = await taken(connection, [row["tool_id"] for row in rows])
    old = {row["tool_id"]: there[row["folded_id"]] for row in rows if row["folded_id"] in there}
    refused = {"error": list(old), "replace": [i for i, row in old.items() if row["tool_id"] != i], "skip": []}
    if refused[on_conflict]:
        raise Conflict(f"Tools are registered already, if only in other case, as {listed(refused[on_conflict])}.")
    replaced = list(old) if on_conflict == "replace" else []
    for portion in portions(replaced):
        await connection.execute(TOOLS.delete().where(TOOLS.c.tool_id.in_(portion)))
    written = [row for row in rows if row["tool_id"] not in old or on_conflict == "replace"]
    kept = {tool_id: {"created_at": old[tool_id]["created_at"]} for tool_id in replaced}
    if written:
        values = [{**row, **times, **kept.get(row["tool_id"], {})} for row in written]
        await connection.execute(sa.insert(TOOLS), values)
    return ImportReport(
        created=[row["tool_id"] for row in written if row["tool_id"] not in old],
        replaced=replaced,
        skipped=list(old) if on_conflict == "skip" else [],
    )
