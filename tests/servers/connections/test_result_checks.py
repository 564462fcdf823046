"""Structured results are judged by the schema their tool was listed with, once compiled (T-12)."""

from typing import Any

import pytest

from tests.servers.connections.peers import call, failure_kind, log_records, plane_of, talkative, text_of
from toolweave.servers.connections.registry import ListedTool

COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


async def problems(schema: dict[str, Any], structured: dict[str, Any]) -> list[str]:
    return await ListedTool("t", None, {}, {}, None, schema).validation_errors("results", structured)


async def test_a_result_that_fits_has_no_problems() -> None:
    assert await problems(COUNT, {"count": 3}) == []


@pytest.mark.parametrize("structured", [{"count": "three"}, {}])
async def test_a_result_that_does_not_fit_is_named(structured: dict[str, Any]) -> None:
    assert len(await problems(COUNT, structured)) == 1


async def test_a_schema_that_cannot_be_used_judges_nothing() -> None:
    assert await problems({"type": "nonsense"}, {"count": 3}) == []
    assert await problems({"$ref": "http://127.0.0.1:9/schema"}, {"count": 3}) == []


async def test_an_expression_that_could_run_for_ever_does_not() -> None:
    evil = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    assert await problems(evil, {"a": "a" * 50_000 + "!"})


async def test_a_server_that_breaks_its_own_schema_is_answered_in_general_words_and_named_in_the_log() -> None:
    async with plane_of(talkative()) as plane:
        with log_records() as lines:
            fits = await call(plane, "only_structure", server="talk", rows=2)
            broken = await call(plane, "only_structure", server="talk", rows=2, row=7)
            missing = await call(plane, "only_structure", server="talk")
    assert fits.structuredContent == {"rows": ["row", "row"]}
    assert failure_kind(broken) == "protocol"
    assert "could not be understood" in text_of(broken)
    assert failure_kind(missing) == "protocol"
    assert any("does not fit its output schema: rows" in line["message"] for line in lines)
    assert any("it has no structured content" in line["message"] for line in lines)
