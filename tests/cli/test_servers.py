"""`toolweave servers`: what is configured, signing in and out."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx

from tests.cli.command import BOUND_S, Ended, Running, serving, started, terminal, toolweave, write_mcp_file
from tests.servers.connections.oauth.guarded import Guarded, browse

SECRET = "s3cr3t-9f8e7d"
ENV = {"TOOLWEAVE_TOKEN_STORE": "file", "TOOLWEAVE_MCP_CONFIG": "mcp.jsonc"}


async def run(folder: Path, *args: str, **env: str) -> Ended:
    return await asyncio.to_thread(toolweave, "servers", *args, cwd=folder, env={**ENV, **env})


async def sign_in(folder: Path, *options: str, **env: str) -> Ended:
    """Run `servers login peer` and open its URL."""

    def go() -> Ended:
        line = ("servers", "login", "peer", "--no-browser", *options)
        with started(*line, cwd=folder, env={**ENV, **env}) as login:
            first = login.line()
            assert first.startswith("Sign in to peer in your browser: http://127.0.0.1:"), login.stderr()
            browse(first.partition(": ")[2])
            return login.ended()

    return await asyncio.to_thread(go)


async def test_the_list_shows_servers_and_sign_ins_without_secrets(guarded: Guarded, tmp_path: Path) -> None:
    write_mcp_file(
        tmp_path,
        {
            "peer": {"url": guarded.server.url, "auth": "oauth"},
            "local": {"command": "some-program", "args": [SECRET], "env": {"KEY": SECRET}, "enabled": False},
            "query": {"url": f"https://user:{SECRET}@h.example/{{env:PART}}/mcp?key={SECRET}"},
            "machine": {
                "url": "https://h.example/sse",
                "auth": {"grant": "client_credentials", "client_id": "me", "client_secret": SECRET},
            },
            "unset": {"url": "https://h:{env:ABSENT}/", "auth": "oauth"},
        },
    )
    part = {"PART": f"{SECRET}-path"}
    before = await run(tmp_path, "list", **part)
    assert before.code == 0, before.stderr
    url = guarded.server.url.removesuffix("/mcp")
    assert before.stdout.splitlines()[:4] == [
        f"peer        enabled        http        {url} (needs a sign-in: toolweave servers login peer)",
        "local       disabled       stdio       some-program",
        "query       enabled        http        https://h.example",
        "machine     enabled        sse         https://h.example (by secret)",
    ]
    unset, *_, last = before.stdout.splitlines()[4:]
    assert unset.startswith(
        "unset       misconfigured  http        https://h:{env:ABSENT} (environment variable ABSENT is not"
    )
    assert last == "Add one: toolweave servers add NAME"
    assert not (tmp_path / ".toolweave").exists()
    assert (await sign_in(tmp_path, **part)).stdout.splitlines()[1:] == ["Signed in to peer."]
    after = await run(tmp_path, "list", "--json", **part)
    assert [each["sign_in"] for each in json.loads(after.stdout) if each["configured"]] == [
        "signed in",
        "none",
        "none",
        "by secret",
        "needed",
    ]
    wrong_key = await run(tmp_path, "list", "--json", TOOLWEAVE_TOKEN_STORE="keyring", **part)
    assert json.loads(wrong_key.stdout)[0]["sign_in"] == "unreadable"
    assert "this machine has no usable keyring" in wrong_key.stderr
    everything = "".join(ended.stdout + ended.stderr for ended in (before, after, wrong_key))
    assert SECRET not in everything


def test_on_a_terminal_the_list_is_wrapped_to_its_width(tmp_path: Path) -> None:
    with terminal("servers", "list", cwd=tmp_path, env={"COLUMNS": "60", "LINES": "40"}) as listing:
        lines = listing.read_to_end().splitlines()
    assert max(map(len, lines)) <= 60
    assert lines[:2] == ["todo        enabled   stdio       The todo list that ", " " * 34 + "todo_agent works with."]


async def test_a_sign_out_deletes_the_tokens_also_of_a_removed_server(guarded: Guarded, tmp_path: Path) -> None:
    write_mcp_file(tmp_path, {"peer": {"url": guarded.server.url, "auth": "oauth"}})
    folder = tmp_path / "data" / "oauth"
    await sign_in(tmp_path, "--data-dir", "data", TOOLWEAVE_TOKEN_KEY="some key")
    assert len(list(folder.glob("peer-*.tokens"))) == 1
    out = [await run(tmp_path, "logout", "peer", "--data-dir", "data") for _ in range(2)]
    assert [ended.stdout for ended in out] == ["Signed out of peer.\n", "You were not signed in to peer.\n"]
    assert list(folder.glob("*.tokens")) == []

    await sign_in(tmp_path)
    removed, signed_out, again = [await run(tmp_path, command, "peer") for command in ("remove", "logout", "logout")]
    assert removed.stdout.startswith("peer is removed from mcp.jsonc.\n")
    assert signed_out.stdout == "Signed out of peer.\n"
    assert list((tmp_path / ".toolweave" / "oauth").glob("*.tokens")) == []
    assert "there is no server 'peer'" in again.paragraph


async def test_a_failed_sign_in_is_one_paragraph(guarded: Guarded, tmp_path: Path) -> None:
    secret = {"grant": "client_credentials", "client_id": "me", "client_secret": SECRET}
    write_mcp_file(
        tmp_path,
        {
            "open": {"url": "https://h.example/mcp"},
            "machine": {"url": "https://h.example/mcp", "auth": secret},
            "unset": {"url": "https://{env:ABSENT}/", "auth": "oauth"},
            "gone": {"url": "http://127.0.0.1:9/mcp", "auth": "oauth"},
            "peer": {"url": guarded.server.url, "auth": "oauth"},
        },
    )
    for name, message in (
        ("absent", "there is no server 'absent'. Known: open, machine, unset, gone, peer."),
        ("open", 'server \'open\' has no sign-in. If it requires OAuth, write "auth": "oauth".'),
        ("machine", "server 'machine' gets its tokens with a client_secret; no sign-in is needed."),
        ("unset", "server 'unset' is misconfigured: environment variable ABSENT is not set"),
        ("gone", "Sign-in failed: gone: the server cannot be reached (ConnectError)."),
    ):
        ended = await run(tmp_path, "login", name, "--no-browser")
        assert (ended.code, message in ended.paragraph) == (1, True), ended.paragraph
    await guarded.tell(set={"deny": True})
    denied = await sign_in(tmp_path)
    assert denied.paragraph == "Sign-in failed: peer: the sign-in was refused (access_denied: not [31m you)."
    await guarded.tell(set={"deny": False})
    late = await run(tmp_path, "login", "peer", "--no-browser", "--timeout", "1")
    assert late.paragraph == "Sign-in failed: peer: the sign-in in the browser was not completed within 1 s."


def health(server: Running) -> Any:
    return httpx.get(f"{server.url}/health", trust_env=False, timeout=60).json()["servers"]["peer"]


def pages(server: Running) -> list[str]:
    paths = ("/servers", "/servers/peer", "/metrics")
    return [httpx.get(server.url + path, trust_env=False, timeout=60).text for path in paths]


def contents(folder: Path) -> list[str]:
    return [path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file()]


def until_ready(server: Running) -> None:
    """Wait, bounded by the caller, until the server is ready; a foreign process gives no sign."""
    while health(server)["state"] != "ready":
        pass


async def test_a_server_that_runs_takes_up_a_sign_in_and_writes_no_token(guarded: Guarded, tmp_path: Path) -> None:
    write_mcp_file(tmp_path, {"peer": {"url": guarded.server.url, "auth": "oauth"}})
    env = {**ENV, "TOOLWEAVE_LOG_LEVEL": "DEBUG"}
    with serving("--data-dir", "data", cwd=tmp_path, env=env) as server:
        reconnect = f"{server.url}/servers/peer/reconnect"
        answer = await asyncio.to_thread(httpx.post, reconnect, trust_env=False)
        assert answer.json()["last_error"] == "needs a sign-in: run `toolweave servers login peer`"
        assert (await guarded.recorded())["seen"] == []
        await sign_in(tmp_path, "--data-dir", "data")
        async with asyncio.timeout(BOUND_S):
            await asyncio.to_thread(until_ready, server)
        recorded = await guarded.recorded()
        shown = [server.stderr(), answer.text, json.dumps(await asyncio.to_thread(health, server))]
        shown += await asyncio.to_thread(pages, server)
    shown += await asyncio.to_thread(contents, tmp_path)
    secrets = {form[name] for form in recorded["forms"] for name in ("code", "code_verifier")} | set(recorded["access"])
    assert len(secrets) == 3
    assert [each for each in secrets if any(each in text for text in shown)] == []
