"""Whatever a graph raises, its run ends with that error and its thread is free."""

import asyncio
from typing import NoReturn

import pytest
from langgraph.errors import NodeCancelledError

from tests.runtime.runs.conftest import Bench


class OnlyBaseError(BaseException):
    """Not caught by `except Exception`."""


class SpeechlessError(Exception):
    """Cannot be converted to text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (OnlyBaseError("base"), {"error": "OnlyBaseError", "message": "base"}),
        (SpeechlessError(), {"error": "SpeechlessError", "message": "<SpeechlessError>"}),
        (asyncio.CancelledError(), {"error": NodeCancelledError.__name__}),
    ],
)
async def test_any_error_of_a_node_ends_its_run(bench: Bench, raised: BaseException, error: dict[str, str]) -> None:
    async def fail() -> NoReturn:
        raise raised

    bench.gates["gated"].pass_through = fail  # type: ignore[method-assign]
    new = bench.run("gated")
    async with asyncio.timeout(60):
        answer = await bench.result(new)
    assert error.items() <= answer["__error__"].items()
    assert (await bench.persistence.threads.get(new.thread_id)).status == "error"
    assert not bench.engine.live_runs
