"""A server that cannot start says why in one paragraph, and keeps nothing open."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.config.langgraph_json import load_langgraph_json
from toolweave.config.settings import load_settings

APP = Path(__file__).parent / "app" / "langgraph.json"


def application(langgraph_json: Path, data_dir: Path) -> Starlette:
    return create_langgraph_app(load_langgraph_json(langgraph_json), load_settings({}, data_dir=data_dir))


async def start(app: Starlette) -> tuple[dict[str, Any], "asyncio.Task[None]", "asyncio.Queue[dict[str, Any]]"]:
    """Start the lifespan as a server does; gives the first answer, the running task and the queue that ends it."""
    incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outgoing: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    task = asyncio.create_task(app(scope, incoming.get, outgoing.put))  # type: ignore[arg-type]
    await incoming.put({"type": "lifespan.startup"})
    async with asyncio.timeout(60):
        return await outgoing.get(), task, incoming


async def failure(app: Starlette) -> str:
    event, task, _ = await start(app)
    await task
    assert event["type"] == "lifespan.startup.failed"
    message: str = event["message"]
    assert "Traceback" not in message
    assert "\n" not in message
    return message


def written(folder: Path, code: str) -> Path:
    (folder / "graphs.py").write_text(code, encoding="utf-8")
    path = folder / "langgraph.json"
    path.write_text(json.dumps({"graphs": {"mine": "./graphs.py:graph"}}), encoding="utf-8")
    return path


async def test_a_data_folder_in_use_is_named(tmp_path: Path) -> None:
    event, first, ending = await start(application(APP, tmp_path))
    assert event["type"] == "lifespan.startup.complete"
    message = await failure(application(APP, tmp_path))
    assert str(tmp_path) in message
    await ending.put({"type": "lifespan.shutdown"})
    async with asyncio.timeout(60):
        await first
    event, again, ending = await start(application(APP, tmp_path))
    assert event["type"] == "lifespan.startup.complete"
    await ending.put({"type": "lifespan.shutdown"})
    await again


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("graph = 3\n", "graph 'mine' is a int, not a graph"),
        ("other = 3\n", "has no 'graph'"),
        ("import no_such_module_anywhere\n", "no_such_module_anywhere"),
        ("def graph(:\n", "cannot load"),
        ("raise RuntimeError('the key is missing')\n", "RuntimeError: the key is missing"),
    ],
)
async def test_a_graph_that_cannot_be_loaded_is_named(tmp_path: Path, code: str, says: str) -> None:
    assert says in await failure(application(written(tmp_path, code), tmp_path / "data"))


async def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    message = await failure(application(APP, tmp_path / "file" / "data"))
    assert "data folder" in message
