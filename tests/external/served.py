"""Serve our application with shipped external servers enabled and a scripted model, and ask its agent_loop."""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.api.routes.conftest import serve_ours
from tests.external.shipped import Changes, enabled_copy
from tests.fixtures.app_server import AppProcess
from tests.fixtures.event_frames import frames
from tests.fixtures.openai_wire import WireCall, WireServer, WireTurn, openai_wire

RUN_BOUND_S = 60.0
Json = dict[str, Any]


@dataclass(frozen=True)
class Served:
    """The application, and the model that its agent asks."""

    process: AppProcess
    wire: WireServer

    def results_of(self, *turns: Sequence[tuple[str, Json]]) -> list[Json]:
        """Run agent_loop with a model that makes these calls, turn by turn; gives the tool messages in order."""
        self._script(turns)
        answer = httpx.post(f"{self.process.url}/runs/wait", json=_run(), timeout=RUN_BOUND_S)
        assert answer.status_code == 200, answer.text
        return [message for message in answer.json()["messages"] if message["type"] == "tool"]

    async def custom_events_of(self, *turns: Sequence[tuple[str, Json]]) -> list[Json]:
        """Run agent_loop so and give what its custom stream has."""
        self._script(turns)
        body = {**_run(), "stream_mode": ["custom"]}
        async with (
            httpx.AsyncClient(base_url=self.process.url, timeout=RUN_BOUND_S) as http,
            http.stream("POST", "/runs/stream", json=body) as answer,
        ):
            assert answer.status_code == 200
            return [frame.data async for frame in frames(answer) if frame.event == "custom"]

    def _script(self, turns: Sequence[Sequence[tuple[str, Json]]]) -> None:
        self.wire.requests.clear()
        self.wire.turns[:] = [
            WireTurn(
                calls=tuple(
                    WireCall(name, json.dumps(arguments), id=f"call_{turn}_{number}")
                    for number, (name, arguments) in enumerate(calls)
                )
            )
            for turn, calls in enumerate(turns)
        ] + [WireTurn(text="Done.")]


def text_in(message: Json) -> str:
    """Give the text of a tool message, which is a string or a list of blocks."""
    content = message["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def serve_with(data_dir: Path, *names: str, env: Mapping[str, str], changes: Changes | None = None) -> Iterator[Served]:
    """Serve with these entries of the shipped file enabled in a copy of it."""
    path = enabled_copy(data_dir.parent, *names, changes=changes)
    with openai_wire([]) as wire:
        model = {"OPENAI_BASE_URL": wire.base_url, "TOOLWEAVE_MODEL": "m", "TOOLWEAVE_MAX_TOOLS": "128"}
        with serve_ours(data_dir, {**model, "TOOLWEAVE_MCP_CONFIG": str(path), **env}) as process:
            yield Served(process, wire)


def descendants(pid: int) -> set[int]:
    """List the processes that a process has started, and those that these have."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True, encoding="utf-8"
    ).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listed.splitlines())}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def _run() -> Json:
    return {"assistant_id": "agent_loop", "input": {"messages": [{"role": "user", "content": "Go on."}]}}
