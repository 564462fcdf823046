"""A video script of a page that Firecrawl fetches: its package, a stand-in for its API, and a scripted model (A-04)."""

from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from tests.external.shipped import KEYS
from tests.external.stub_apis import PAGE, StubApis
from tests.fixtures.openai_wire import openai_wire
from tests.graphs.script_agent import DONE, WRITES, asks
from tests.nodes.model_at import model_at
from toolweave.config.script_job import read_script_job
from toolweave.graphs.script_writer import build_script_writer

pytestmark = [pytest.mark.external, pytest.mark.slow]

URL = "https://example.com/blog"
MCP_FILE = """
{
  // as the clients of Firecrawl have it
  "mcpServers": {
    "firecrawl": {
      "command": "{env:TOOLWEAVE_DATA_DIR}/servers/node_modules/.bin/firecrawl-mcp",
      "args": [],
      "env": {
        "FIRECRAWL_API_KEY": "{env:FIRECRAWL_API_KEY}",
        "FIRECRAWL_API_URL": "{env:FIRECRAWL_API_URL}",
      },
      "timeout_s": 40,
    },
  },
}
"""


@pytest.mark.requirement("A-04")
async def test_firecrawl_is_found_chosen_and_called_and_the_page_becomes_a_script(
    data_dir: Path, tmp_path: Path, apis: StubApis
) -> None:
    path = tmp_path / "mcp.jsonc"
    path.write_text(MCP_FILE, encoding="utf-8")
    key = KEYS["FIRECRAWL_API_KEY"]
    environ = {
        "MCP_CONFIG_PATH": str(path),
        "TOOLWEAVE_DATA_DIR": str(data_dir),
        "FIRECRAWL_API_KEY": key,
        "FIRECRAWL_API_URL": apis.url,
    }
    scrape = ("firecrawl_firecrawl_scrape", {"url": URL, "formats": ["markdown"], "onlyMainContent": True})
    thread: Any = {"configurable": {"thread_id": "t"}}
    with openai_wire([asks(scrape), DONE, WRITES]) as wire:
        graph = build_script_writer(
            model=model_at(wire), read_job=lambda: read_script_job(environ), checkpointer=InMemorySaver()
        )
        answer = await graph.ainvoke({"url": URL}, thread)
        state = await graph.aget_state(thread)

    found, called, written = wire.requests
    assert {"firecrawl_firecrawl_scrape", "firecrawl_firecrawl_search"} <= set(found.tool_names)
    assert URL in found.messages[-1]["content"]
    assert [(request.method, request.path, request.body["url"]) for request in apis.requests] == [
        ("POST", "/v2/scrape", URL)
    ]
    assert "whoever rings the bell" in called.messages[-1]["content"]
    assert PAGE.partition("\n\n")[2] in written.messages[-1]["content"]
    assert answer["source"] == {"url": URL, "title": "Opening hours", "site": "example.com", "language": ""}
    assert answer["script"]["sections"]
    assert key not in repr([state, wire.requests])
