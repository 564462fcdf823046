"""Whatever a graph raises, its run ends with that error and its thread is free."""

import asyncio
from typing import NoReturn

import pytest
from langgraph.errors import NodeCancelledError

from tests.fixtures.graphs import Gate
from tests.runtime.runs.conftest import Bench


class OnlyBaseError(BaseException):
    """What no `except Exception` catches."""


class SpeechlessError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class RaisingGate(Gate):
    """A place where a node raises instead of waiting."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def pass_through(self) -> NoReturn:
        raise self.error


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (OnlyBaseError("base"), {"error": "OnlyBaseError", "message": "base"}),
        (SpeechlessError(), {"error": "SpeechlessError", "message": "<SpeechlessError>"}),
        (asyncio.CancelledError(), {"error": NodeCancelledError.__name__}),
    ],
)
async def test_any_error_of_a_node_ends_its_run(bench: Bench, raised: BaseException, told: dict[str, str]) -> None:
    bench.gates["gated"].pass_through = RaisingGate(raised).pass_through  # type: ignore[method-assign]
    new = bench.run("gated")
    async with asyncio.timeout(60):
        answer = await bench.result(new)
    assert told.items() <= answer["__error__"].items()
    assert (await bench.persistence.threads.get(new.thread_id)).status == "error"
    assert not bench.engine.live_runs
