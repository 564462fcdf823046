"""/servers shows an operator each MCP server and its tools without a secret, and connects one anew (T-06)."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from tests.api.routes.lifespans import configured, peer, running
from tests.fixtures.app_server import serve_in_thread
from toolweave.config.mcp import load_mcp_config
from toolweave.errors import ConfigError
from toolweave.servers.connections.context import CallContext

SECRET_URL = "http://ann:in-the-userinfo@127.0.0.1:9/in-the-path/mcp?key=in-the-query"
SERVERS: dict[str, Any] = {
    "good": peer(
        env={"PEER_KEY": "in-the-environment"},
        tools={"include": ["ec*", "env", "fail", "pid", "wrong_shape"], "exclude": ["en*"]},
        prefix="p_",
        timeout_s=62.5,
        max_concurrency=7,
        breaker={"failures": 4, "recovery_s": 1.5},
        approve=["fail"],
    ),
    "remote": {"url": SECRET_URL, "headers": {"Authorization": "Bearer in-the-header"}},
    "off": {"command": "never-run", "args": ["--key", "in-the-arguments"], "enabled": False},
    "unset": {"command": "{env:ABSENT_VARIABLE}"},
}
SECRETS = [f"in-the-{place}" for place in ("userinfo", "path", "query", "environment", "header", "arguments")]


async def called(app: FastAPI, tool: str, server: str = "good", **arguments: Any) -> Any:
    async with asyncio.timeout(60):
        return await app.state.plane.call(server, tool, arguments, CallContext())


async def test_all_servers_are_listed_in_the_order_of_the_file_and_no_page_shows_a_secret(tmp_path: Path) -> None:
    async with running(configured(tmp_path, SERVERS)) as (app, http):
        await called(app, "env")
        pages = {path: await http.get(path) for path in ("/servers", "/health", "/servers/metrics")}
        details = {name: await http.get(f"/servers/{name}") for name in SERVERS}
    listed, health = pages["/servers"].json(), pages["/health"].json()["servers"]
    assert [(each["name"], each["transport"], each["enabled"], each["state"]) for each in listed] == [
        ("good", "stdio", True, "ready"),
        ("remote", "http", True, "down"),
        ("off", "stdio", False, "disabled"),
        ("unset", "stdio", True, "misconfigured"),
    ]
    for each in listed:
        assert each.items() >= {**health[each["name"]], "last_error": each["last_error"]}.items()
    assert details["remote"].json()["target"] == "http://127.0.0.1:9"
    assert details["remote"].json()["errors"][0]["outcome"] == "connection"
    assert {page.status_code for page in (*pages.values(), *details.values())} == {200}
    texts = [page.text for page in (*pages.values(), *details.values())]
    assert [secret for text in texts for secret in SECRETS if secret in text] == []


async def test_one_server_is_shown_with_its_limits_tools_calls_and_errors(tmp_path: Path) -> None:
    async with running(configured(tmp_path, SERVERS)) as (app, http):
        for tool in ("echo", "fail", "echo", "wrong_shape"):
            await called(app, tool)
        shown = (await http.get("/servers/good")).json()
    offers = {tool["own_name"]: tool for tool in shown["offers"]}
    facts = {
        "prefix": "p_",
        "filters": {"include": ["ec*", "env", "fail", "pid", "wrong_shape"], "exclude": ["en*"]},
        "timeout_s": 62.5,
        "max_concurrency": 7,
        "breaker_rules": {"failures": 4, "recovery_s": 1.5},
        "calls": 4,
        "failures": 2,
        "retries": 0,
        "in_flight": 0,
        "failed_connects": 0,
        "tools": 4,
    }
    assert {name: shown[name] for name in facts} == facts
    assert shown["target"] == SERVERS["good"]["command"]
    assert list(offers) == ["echo", "fail", "pid", "wrong_shape"]
    assert offers["fail"] == {
        "name": "p_fail",
        "own_name": "fail",
        "description": None,
        "input_schema": {"type": "object"},
        "annotations": {},
        "_meta": None,
        "requires_approval": True,
        "calls": 1,
        "failures": 1,
    }
    assert [tool["requires_approval"] for tool in offers.values()] == [False, True, False, False]
    assert (offers["echo"]["calls"], offers["echo"]["failures"]) == (2, 0)
    newest, older = shown["errors"]
    assert [(error["tool"], error["outcome"]) for error in (newest, older)] == [
        ("wrong_shape", "protocol"),
        ("fail", "tool_error"),
    ]
    assert "not a valid" in newest["reason"]
    assert datetime.fromisoformat(newest["time"]) > datetime.fromisoformat(older["time"])


async def test_a_server_that_is_down_still_shows_its_tools(tmp_path: Path) -> None:
    async with running(configured(tmp_path, {"good": peer("gone-after-list", tools={"include": ["echo"]})})) as (
        app,
        http,
    ):
        async with asyncio.timeout(60):
            await app.state.plane._connections["good"].status.wait_for_state("down")
            shown = (await http.get("/servers/good")).json()
    assert shown["tools"] == 0
    assert [tool["name"] for tool in shown["offers"]] == ["good_echo"]


async def test_an_unknown_server_is_404_and_one_that_is_never_connected_is_not_reconnected(tmp_path: Path) -> None:
    async with running(configured(tmp_path, SERVERS)) as (_, http):
        unknown = [await http.get("/servers/gooood"), await http.post("/servers/gooood/reconnect")]
        refused = [await http.post(f"/servers/{name}/reconnect") for name in ("off", "unset")]
    expected = {"detail": "There is no MCP server named 'gooood'. Configured: good, remote, off, unset."}
    assert [(response.status_code, response.json()) for response in unknown] == [(404, expected)] * 2
    assert [response.status_code for response in refused] == [409, 409]
    assert "is disabled." in refused[0].json()["detail"]
    assert "is misconfigured: environment variable" in refused[1].json()["detail"]


async def test_a_reconnect_opens_a_new_session_and_returns_the_servers_state(tmp_path: Path) -> None:
    async with running(configured(tmp_path, SERVERS)) as (app, http):
        before = (await called(app, "pid")).content[0].text
        answer = await http.post("/servers/good/reconnect")
        after = (await called(app, "pid")).content[0].text
        failed = await http.post("/servers/remote/reconnect")
    assert (answer.status_code, answer.json()["state"], answer.json()["tools"]) == (200, "ready", 4)
    assert answer.json()["last_error"] is None, "a reconnect that was requested is no error"
    assert before != after
    assert (failed.status_code, failed.json()["state"]) == (200, "down")


def test_no_server_may_have_the_name_of_a_page(tmp_path: Path) -> None:
    path = tmp_path / "mcp.jsonc"
    path.write_text('{"mcpServers": {\n"metrics": {"command": "x"}}}', encoding="utf-8")
    with pytest.raises(ConfigError, match="/servers/metrics is a page") as raised:
        load_mcp_config(path, {})
    assert raised.value.source == f"{path}:2"


def figures(text: str) -> dict[tuple[str, ...], float]:
    """Read samples as name, then the values of the labels in the order of their names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("toolweave_mcp")
    }


async def test_prometheus_gets_every_server_and_every_tool_that_was_called(tmp_path: Path) -> None:
    async with running(configured(tmp_path, SERVERS)) as (app, http):
        for tool in ("echo", "echo", "fail", "wrong_shape"):
            await called(app, tool)
        answer = await http.get("/servers/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = figures(answer.text)
    for expected, value in {
        ("toolweave_mcp_server_state", "good", "ready"): 1,
        ("toolweave_mcp_server_state", "good", "down"): 0,
        ("toolweave_mcp_server_state", "remote", "down"): 1,
        ("toolweave_mcp_server_state", "off", "disabled"): 1,
        ("toolweave_mcp_breaker_state", "good", "CLOSED"): 1,
        ("toolweave_mcp_breaker_state", "good", "OPEN"): 0,
        ("toolweave_mcp_server_tools", "good"): 4,
        ("toolweave_mcp_calls_in_flight", "good"): 0,
        ("toolweave_mcp_calls_total", "ok", "good", "echo"): 2,
        ("toolweave_mcp_calls_total", "tool_error", "good", "fail"): 1,
        ("toolweave_mcp_calls_total", "protocol", "good", "wrong_shape"): 1,
        ("toolweave_mcp_call_retries_total", "good", "echo"): 0,
        ("toolweave_mcp_call_duration_seconds_bucket", "+Inf", "good", "echo"): 2,
        ("toolweave_mcp_call_duration_seconds_count", "good", "echo"): 2,
        ("toolweave_mcp_call_duration_seconds_count", "good", "wrong_shape"): 0,
    }.items():
        assert found[expected] == value, expected
    buckets = [value for name, value in found.items() if name[0].endswith("_bucket") and name[3] == "echo"]
    assert buckets == sorted(buckets)


async def test_two_applications_in_one_process_do_not_collide_and_leave_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    first, second = configured(tmp_path, SERVERS), configured(tmp_path / "second", SERVERS)
    before = generate_latest(REGISTRY)
    async with running(first) as (one, _):
        await called(one, "echo")
        async with running(second) as (other, _):
            await called(other, "fail")
            shown = generate_latest(REGISTRY).decode()
    assert ("toolweave_mcp_calls_total", "tool_error", "good", "fail") in figures(shown)
    assert len([line for line in shown.splitlines() if line.startswith("# TYPE toolweave_mcp_calls_total ")]) == 1
    assert (b"toolweave_mcp" in before, b"toolweave_mcp" in generate_latest(REGISTRY)) == (False, False)


@pytest.mark.requirement("S-11")
async def test_a_tool_is_called_by_its_own_name_and_the_log_has_the_call_without_its_values(tmp_path: Path) -> None:
    async with running(configured(tmp_path, SERVERS)) as (_, http):
        call = {"tool": "echo", "arguments": {"text": "in-the-arguments"}}
        answered = (await http.post("/servers/good/call", json=call)).json()
        failed = (await http.post("/servers/good/call", json={"tool": "fail"})).json()
        excluded = (await http.post("/servers/good/call", json={"tool": "slow"})).json()
        unknown = [await http.post("/servers/x/call", json=call), await http.get("/servers/x/calls")]
        calls = await http.get("/servers/good/calls")
    assert (answered["result"]["isError"], failed["result"]["isError"], excluded["result"]["isError"]) == (0, 1, 1)
    assert "in-the-arguments" in answered["result"]["content"][0]["text"]
    assert answered["duration_ms"] > 0
    assert [response.status_code for response in unknown] == [404, 404]
    assert [(call["tool"], call["outcome"], call["retries"], call["caller"]) for call in calls.json()] == [
        ("slow", "refused", 0, None),
        ("fail", "tool_error", 0, None),
        ("echo", "ok", 0, None),
    ]
    assert "in-the-" not in calls.text


KEYS = """
from langgraph_sdk import Auth

auth = Auth()

@auth.authenticate
async def authenticate(authorization: str | None, path: str):
    if authorization not in ("Bearer ann", "Bearer bob"):
        raise Auth.exceptions.HTTPException(401, "No valid key.")
    if authorization == "Bearer bob" and path.endswith("/call"):
        raise Auth.exceptions.HTTPException(403, "No direct calls.")
    return {"identity": authorization.removeprefix("Bearer ")}
"""
ANN, BOB = {"authorization": "Bearer ann"}, {"authorization": "Bearer bob"}
PAGES = ("/health", "/health/live", "/health/ready", "/servers", "/servers/metrics", "/servers/good")


@contextmanager
def served(folder: Path, **http: bool) -> Iterator[httpx.Client]:
    configured(folder, {"good": peer(tools={"include": ["echo"]})})
    (folder / "keys.py").write_text(KEYS, encoding="utf-8")
    (folder / "langgraph.json").write_text(
        json.dumps(
            {
                "graphs": {"todo_agent": "toolweave.graphs.served:todo_agent"},
                "auth": {"path": "./keys.py:auth"},
                "http": {"app": "toolweave.api.app:app", "mount_prefix": "/api", **http},
            }
        ),
        encoding="utf-8",
    )
    env = {"TOOLWEAVE_MODEL": "offline", "TOOLWEAVE_MCP_CONFIG": str(folder / "mcp.jsonc")}
    with (
        serve_in_thread(folder / "langgraph.json", folder / "data", env) as server,
        httpx.Client(base_url=f"{server.url}/api", timeout=60) as client,
    ):
        assert client.post("/servers/good/reconnect", headers=ANN).json()["state"] == "ready"
        yield client


def check_that_callers_see_their_own_calls_only(client: httpx.Client) -> None:
    call = {"tool": "echo"}
    assert client.post("/servers/good/call", json=call).status_code == 401
    assert client.get("/servers/good/calls").status_code == 401
    assert client.post("/servers/good/call", json=call, headers=ANN).status_code == 200
    assert [each["caller"] for each in client.get("/servers/good/calls", headers=ANN).json()] == ["ann"]
    assert client.get("/servers/good/calls", headers=BOB).json() == []


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Serve the application below a prefix, with authentication for its routes."""
    with served(tmp_path_factory.mktemp("guarded"), enable_custom_route_auth=True) as client:
        yield client


def test_the_pages_are_below_the_prefix_and_require_the_authentication_that_is_configured(
    guarded: httpx.Client,
) -> None:
    assert [guarded.get(page).status_code for page in PAGES] == [401] * len(PAGES)
    assert guarded.post("/servers/good/reconnect").status_code == 401
    assert {page: guarded.get(page, headers=ANN).status_code for page in PAGES} == dict.fromkeys(PAGES, 200)
    assert guarded.post("/servers/good/reconnect", headers=ANN).json()["state"] == "ready"
    outside = str(guarded.base_url).removesuffix("/api/")
    assert httpx.get(f"{outside}/servers", headers=ANN, timeout=60).status_code == 404


@pytest.mark.requirement("S-11")
def test_callers_see_their_own_calls_only(guarded: httpx.Client) -> None:
    check_that_callers_see_their_own_calls_only(guarded)


def test_the_auth_handler_can_refuse_direct_calls_of_tools_by_their_path(guarded: httpx.Client) -> None:
    """docs/callers.md advises it."""
    assert guarded.post("/servers/good/call", json={"tool": "echo"}, headers=BOB).status_code == 403
    assert guarded.get("/servers/good", headers=BOB).status_code == 200


def test_another_host_name_and_a_body_that_is_too_large_are_refused(guarded: httpx.Client) -> None:
    responses = [guarded.get(page, headers={**ANN, "host": "evil.example"}) for page in PAGES]
    assert [response.status_code for response in responses] == [421] * len(PAGES)
    too_large = guarded.post("/servers/good/reconnect", headers=ANN, content=b"x" * (1024 * 1024 + 1))
    assert too_large.status_code == 413


def test_the_description_of_the_api_has_the_pages(guarded: httpx.Client) -> None:
    paths = guarded.get("/openapi.json").json()["paths"]
    assert {*PAGES[:-1], *(f"/servers/{{name}}{each}" for each in ("", "/reconnect", "/call", "/calls"))} <= set(paths)


def test_the_metrics_of_the_server_have_the_figures_of_the_plane_once(guarded: httpx.Client) -> None:
    text = guarded.get("/metrics").text
    assert figures(text)["toolweave_mcp_server_state", "good", "ready"] == 1
    types = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(types) == len(set(types))
    assert {"process_resident_memory_bytes", "python_info", "lg_api_num_pending_runs"} <= set(types)


# The last test: a process has one tool plane, and this test's server replaces that of `guarded`.
def test_an_unknown_caller_sees_no_server_and_reconnects_none(tmp_path: Path) -> None:
    with served(tmp_path) as client:
        assert [client.get(page).status_code for page in ("/servers", "/servers/good")] == [401, 401]
        assert client.post("/servers/good/reconnect").status_code == 401
        assert [client.get(page).status_code for page in ("/health", "/servers/metrics")] == [200, 200]
        assert client.get("/servers/good", headers=ANN).json()["name"] == "good"
        assert client.post("/servers/good/reconnect", headers=ANN).json()["state"] == "ready"
        check_that_callers_see_their_own_calls_only(client)
