"""What docs/tool-plane.md and its neighbours list is what there is."""

import json
import re
from pathlib import Path
from typing import get_args

from tests.fixtures.doc_pages import DOCS, code_blocks
from toolweave.api.routes.servers import PlaneMetrics
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import BreakerRules, ServerEntry
from toolweave.config.settings import Settings
from toolweave.servers.connections.breaker import BreakerState
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.observability import Outcome, open_call_log
from toolweave.servers.connections.plane import open_tool_plane
from toolweave.servers.connections.sessions.faults import MAX_MESSAGE_BYTES
from toolweave.servers.connections.status import ServerHealth, ServerState

PAGE = (DOCS / "tool-plane.md").read_text(encoding="utf-8")


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]*)`", text)


def rows(heading: str) -> list[list[str]]:
    """Give the cells of the table below a heading."""
    table = PAGE.partition(f"{heading}\n")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[1:]]


def test_every_key_of_an_entry_is_listed_with_its_default() -> None:
    listed = {
        name: default.strip("`") for key, default, _ in rows("| key | default | meaning |") for name in names(key)
    }
    fields = ServerEntry.model_fields

    assert {name.partition(".")[0] for name in listed} == set(fields)
    plain = ("timeout_s", "max_result_chars", "approve_destructive", "elicit", "spawn")
    assert {name: listed[name] for name in plain} == {
        name: f"{fields[name].default:g}"
        if not isinstance(fields[name].default, bool)
        else json.dumps(fields[name].default)
        for name in plain
    }
    assert listed["breaker.failures"] == f"{BreakerRules().failures}, {BreakerRules().recovery_s:g}"
    assert f"`TOOLWEAVE_MAX_TOOLS` ({Settings().max_tools})" in PAGE
    assert f"more than {MAX_MESSAGE_BYTES >> 20} MiB" in PAGE.replace("\n", " ")


def test_the_states_and_the_record_of_a_server_are_those_of_health() -> None:
    assert [names(state)[0] for state, _ in rows("| state | |")] == list(get_args(ServerState))
    [example] = code_blocks(PAGE, "json")
    assert json.loads(example).keys() == ServerHealth.__annotations__.keys()
    assert json.loads(example)["breaker"] in get_args(BreakerState)


async def test_the_metrics_are_those_that_are_given() -> None:
    listed = {name: labels for metrics, labels in rows("| metric | labels |") for name in names(metrics)}
    async with open_tool_plane([]) as plane:
        given = [
            f"{each.name}_total" if each.type == "counter" else each.name for each in PlaneMetrics(plane).collect()
        ]

    assert sorted(listed) == sorted(given)
    assert names(listed["toolweave_mcp_calls_total"]) == ["server", "tool", "outcome", *get_args(Outcome)]


async def test_a_line_of_the_call_log_has_what_the_page_says(tmp_path: Path) -> None:
    server = McpServerConfig(name="off", transport="stdio", command="-", enabled=False)
    async with open_call_log(tmp_path, "full") as log, open_tool_plane([server], observers=log) as plane:
        await plane.call("off", "tool", {}, CallContext())
    line = json.loads((tmp_path / "logs" / "mcp.jsonl").read_text("utf-8"))
    # Of the request and the run that call; this call has neither.
    callers = {"request_id", "assistant_id", "graph_id"}
    sentence = PAGE.partition("`record.extra`: ")[2].partition("\n\n")[0].replace("`_meta`", "")

    assert set(names(sentence)) == (line["record"]["extra"].keys() - {"plane"}) | callers
