"""Sessions with a real server that asks for OAuth: tokens come, are renewed and refused."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.servers.connections.oauth.guarded import Guarded, file_place, guarded_server, signed_in
from tests.servers.connections.peers import QUICK, call, text_of, until
from toolweave.servers.connections.plane import open_tool_plane


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running() -> AsyncIterator[Guarded]:
    """Run one guarded server for the tests of a module."""
    async with guarded_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def guarded(running: Guarded) -> Guarded:
    """Give it as if freshly started."""
    await running.tell(reset=True, revoke="all")
    return running


async def test_client_credentials_open_a_session_by_themselves(guarded: Guarded) -> None:
    async with open_tool_plane([guarded.machine()], pace=QUICK) as plane:
        await until(plane, "ready")
        assert text_of(await call(plane, "echo", text="hello")) == "hello"
    assert await guarded.asked("client_credentials") == 1
    assert await guarded.asked("register") == 0


async def test_a_person_signs_in_once_and_the_tokens_outlive_the_process(guarded: Guarded, tmp_path: Path) -> None:
    place = file_place(tmp_path)
    await signed_in(guarded.config(), place)
    for _ in range(2):
        async with open_tool_plane([guarded.config()], pace=QUICK, token_place=place) as plane:
            await until(plane, "ready")
            assert text_of(await call(plane, "echo", text="hello")) == "hello"
    assert (await guarded.asked("register"), await guarded.asked("refresh_token")) == (1, 0)
