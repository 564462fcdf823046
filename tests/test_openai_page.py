"""The examples of docs/openai.md run as they are printed there."""

from pathlib import Path
from typing import Any

import pytest

from tests.api.routes.conftest import serve_ours, wait_for_health
from tests.api.routes.human import with_a_person
from tests.fixtures.doc_pages import DOCS, code_blocks, run_example
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

PAGE = (DOCS / "openai.md").read_text(encoding="utf-8")
TURNS = [
    WireTurn("No tasks."),
    WireTurn(calls=(WireCall("get_weather", '{"city": "Oslo"}'),)),
    WireTurn("It rains in Oslo."),
    WireTurn(calls=(WireCall("create_todo", '{"title": "Buy milk"}'),)),
    WireTurn("Added."),
]


@pytest.mark.requirement("S-09")
async def test_its_examples_get_their_answers(tmp_path: Path) -> None:
    with openai_wire(TURNS) as wire:
        person = with_a_person(tmp_path, asking=False)
        env = {**person, "OPENAI_BASE_URL": wire.base_url, "TOOLWEAVE_MODEL": "scripted"}
        with serve_ours(tmp_path / "data", env) as process:
            wait_for_health(process, "ok")
            answers: list[Any] = []
            for block in code_blocks(PAGE, "python"):
                code = block.replace("http://127.0.0.1:2024", process.url)
                answers.append(await run_example(f"{code}await client.close()\n", "answer"))
    assert answers == ["No tasks.", "It rains in Oslo.", "Added."]
