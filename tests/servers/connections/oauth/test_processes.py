"""Several processes use the same tokens, and none of them writes secrets."""

import asyncio
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.servers.connections.oauth.guarded import (
    ROOT,
    Guarded,
    failed_attempts,
    file_place,
    plane_for,
    signed_in,
    stored_grant,
    stored_text,
)
from tests.servers.connections.peers import QUICK, call, connection, failure_kind, log_records, text_of, until
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.plane import open_tool_plane

CALLER = """
import asyncio, sys
from pathlib import Path
from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import OAuth
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.plane import open_tool_plane

async def main(url, folder, rounds):
    config = McpServerConfig(name="peer", transport="http", url=url, auth=OAuth(), timeout_s=60)
    place = TokenLocation(Path(folder), "file", "a key for all")
    async with open_tool_plane([config], token_place=place) as plane:
        await plane.wait_for_servers(timeout_s=60)
        for _ in range(rounds):
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            result = await plane.call("peer", "echo", {"text": "hello"}, CallContext())
            print(result.content[0].text, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.slow
async def test_processes_that_renew_at_once_lose_no_tokens(guarded: Guarded, tmp_path: Path) -> None:
    place = file_place(tmp_path, "a key for all")
    await signed_in(guarded.config(), place)
    stored_grant(guarded.config(), place, expires_at=1.0)
    rounds = 3
    command = [sys.executable, "-c", CALLER, guarded.server.url, str(place.folder), str(rounds)]
    env = {**os.environ, "PYTHONPATH": ROOT}
    pipe = asyncio.subprocess.PIPE
    processes = [await asyncio.create_subprocess_exec(*command, env=env, stdin=pipe, stdout=pipe) for _ in range(2)]
    try:
        async with asyncio.timeout(60):
            for _ in range(rounds):
                assert {await line(process) for process in processes} == {"ready"}
                # Each of them is refused now, and has the same refresh token, which works once.
                await guarded.tell(revoke="access")
                for process in processes:
                    assert process.stdin is not None
                    process.stdin.write(b"\n")
                assert {await line(process) for process in processes} == {"hello"}
            assert [await process.wait() for process in processes] == [0, 0]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert await guarded.request_count("reuse") == 0
    assert await guarded.request_count("refresh_token") == 1 + rounds
    assert await guarded.request_count("register") == 1


async def line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().strip()


async def test_a_wrong_key_causes_one_warning_and_a_new_sign_in_repairs_it(guarded: Guarded, tmp_path: Path) -> None:
    await signed_in(guarded.config(), file_place(tmp_path, "the old key"))
    place = file_place(tmp_path, "the new key")
    with log_records() as records:
        async with plane_for(guarded.config(), place, state="down") as plane:
            await failed_attempts(plane, 5)
            error = plane.health()["peer"]["last_error"] or ""
            assert error.startswith("needs a sign-in (the stored tokens cannot be decrypted: ")
            assert "TOOLWEAVE_TOKEN_KEY has changed" in error
            assert [each["message"] for each in records if each["level"]["name"] == "WARNING"] == [
                f"MCP server peer is down: {error}"
            ]
            await signed_in(guarded.config(), place)
            await until(plane, "ready")


async def test_tokens_that_cannot_be_stored_are_used_until_the_process_ends(
    guarded: Guarded, tokens: TokenLocation
) -> None:
    (stored,) = tokens.folder.glob("*.tokens")
    with log_records() as records:
        async with plane_for(guarded.config(), tokens) as plane:
            # A folder in the way of the draft: a full disk fails in the same place.
            stored.with_suffix(".new").mkdir()
            for _ in range(2):
                await guarded.tell(revoke="access")
                assert text_of(await call(plane, "echo", text="hello")) == "hello"
    assert (await guarded.request_count("refresh_token"), await guarded.request_count("reuse")) == (2, 0)
    assert [each for each in records if "its new tokens are lost when this process exits" in each["message"]]


async def test_a_missing_scope_is_logged_once_and_the_token_is_redacted(guarded: Guarded) -> None:
    with log_records() as records:
        async with plane_for(guarded.machine()) as plane:
            (token,) = (await guarded.recorded())["access"]
            assert connection(plane).redaction.sanitize(f"bad token {token}!") == "bad token ***!"
            await guarded.tell(set={"scope_wanted": "admin write"})
            for _ in range(2):
                assert failure_kind(await call(plane, "echo", text="hello"))
    messages = [each["message"] for each in records if "its token lacks the scope 'admin write'" in each["message"]]
    assert len(messages) == 1


async def test_no_log_error_or_health_holds_a_token_code_verifier_or_secret(
    guarded: Guarded, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = file_place(tmp_path)
    for name in ("", "httpx", "httpcore", "mcp", "mcp.client", "asyncio"):
        caplog.set_level(logging.DEBUG, logger=name or None)
    shown: list[str] = []
    with log_records() as records:
        await signed_in(guarded.config(), place)
        person, machine = guarded.config(), replace(guarded.machine(), name="machine")
        async with open_tool_plane([person, machine], timing=QUICK, token_place=place) as plane:
            for name in ("peer", "machine"):
                await until(plane, "ready", name=name)
            await guarded.tell(revoke="access")
            for name in ("peer", "machine"):
                assert text_of(await call(plane, "echo", server=name, text="hello")) == "hello"
            secret = (await guarded.recorded())["access"][0]
            body = {"access_token": secret, "token_type": "Odd", "refresh_token": secret}
            for status in (200, 400):
                await guarded.tell(
                    revoke="all", set={"token_status": status, "token_body": str(body).replace("'", '"')}
                )
                for name in ("peer", "machine"):
                    result = await call(plane, "echo", server=name, text="hello")
                    assert failure_kind(result)
                    shown.append(text_of(result))
                    await until(plane, "down", name=name)
                shown.append(str(plane.health()))
    state = await guarded.recorded()
    names = ("code", "code_verifier", "refresh_token", "client_secret", "authorization")
    secrets = {form[name] for form in state["forms"] for name in names if form.get(name)}
    secrets |= {carried.removeprefix("Bearer ") for carried in state["seen"] if carried} | {secret}
    assert len(secrets) > 8
    shown += [str(record) for record in records]
    shown += [f"{record.getMessage()} {record.exc_text or ''} {record.exc_info or ''}" for record in caplog.records]
    shown.append(stored_text(place).decode("latin-1"))
    everything = "\n".join(shown)
    assert [each for each in secrets if each in everything] == []
