"""Serve our own application, todo server and offline model included, as a process of its own."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures.app_server import OURS, START_BOUND_S, AppProcess

ChatEvent = tuple[str, dict[str, Any]]


@contextmanager
def serve_ours(folder: Path, env: Mapping[str, str] | None = None) -> Iterator[AppProcess]:
    """Serve this repository's langgraph.json on a data folder until the block ends."""
    with AppProcess(OURS, folder, env or {"TOOLWEAVE_MODEL": "offline"}) as process:
        yield process


def wait_for_health(process: AppProcess, status: str) -> dict[str, Any]:
    """Request /health until it shows `status`, bounded; return the whole body."""
    deadline = time.monotonic() + START_BOUND_S
    while True:
        answer: dict[str, Any] = httpx.get(f"{process.url}/health", timeout=60).json()
        if answer["status"] == status and "connecting" not in str(answer["servers"]):
            return answer
        assert time.monotonic() < deadline, f"/health did not show {status!r}: {answer}"


def chat(process: AppProcess, **body: Any) -> list[ChatEvent]:
    """Send one chat turn and give its events."""
    answer = httpx.post(f"{process.url}/chat/stream", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return events_of(answer.text)


def events_of(text: str) -> list[ChatEvent]:
    """Read server-sent events."""
    frames = [frame.split("\n") for frame in text.split("\n\n") if frame]
    return [(event.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for event, data in frames]


def named(events: list[ChatEvent], name: str) -> list[dict[str, Any]]:
    """Give the data of the events of one name."""
    return [data for event, data in events if event == name]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppProcess]:
    """Our application with its todo server ready, for all tests of a module."""
    env = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_TODO_ENV": '{"TOOLWEAVE_LOG_LEVEL": "INFO"}'}
    with serve_ours(tmp_path_factory.mktemp("data"), env) as process:
        wait_for_health(process, "ok")
        yield process
