"""The README is true: its commands exist, its configuration loads, its example runs."""

import re
import sys
from pathlib import Path

from langchain_core.tools import StructuredTool

from tests.fixtures.doc_pages import code_blocks, run_example
from toolweave.config.mcp import load_mcp_config
from toolweave.nodes.offline_model import OfflineChatModel

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_screen_names_the_two_commands_and_the_gate_runs_one_of_them() -> None:
    first_screen = README.splitlines()[:12]
    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in first_screen)
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_every_make_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)\b", README))
    assert {target for target in named if f"\n{target}:" not in makefile} == set()


async def test_its_embedding_example_runs() -> None:
    async def get_time(city: str) -> str:
        """Get the current time in a city."""
        return f"12:00 in {city}"

    (example,) = [block for block in code_blocks(README, "python") if "build_agent_loop" in block]
    tools = [StructuredTool.from_function(coroutine=get_time)]
    answer = await run_example(example, "answer", my_tools=tools, my_chat_model=OfflineChatModel())
    assert "12:00 in" in answer["messages"][-1].content
