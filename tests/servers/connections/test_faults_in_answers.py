"""The failure of a call for each malformed response, over all transports; no other call is affected."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.fixtures.loop_clock import pass_time
from tests.servers.connections.faulty import TRANSPORTS, Faulty, faulty
from tests.servers.connections.peers import BOUND_S, LIMIT_S, compile_checks, failure_kind, pid_of, text_of
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.context import CallContext
from toolweave.servers.connections.sessions.faults import MAX_MESSAGE_VALUES

Case = tuple[str, dict[str, Any], dict[Transport, str]]
TOO_MUCH = 34_000_000


def everywhere(kind: str) -> dict[Transport, str]:
    return dict.fromkeys(TRANSPORTS, kind)


REMOTE_TRANSPORT: dict[Transport, str] = {"http": "transport", "sse": "transport"}
AT_ONCE: list[Case] = [
    ("wrong_shape", {}, everywhere("protocol")),
    ("rpc_error", {"code": -32603}, everywhere("protocol")),
    ("rpc_error", {"code": -32000}, everywhere("protocol")),
    ("rpc_error", {"code": -32602}, everywhere("tool")),
    ("garbage", {}, {"http": "protocol"}),
    ("wrong_id", {}, {"http": "protocol"}),
    ("noise", {}, {"stdio": "", "http": "protocol", "sse": ""}),
    ("invalid_utf8", {}, {"stdio": "", "http": "protocol", "sse": ""}),
    ("twice", {}, {"stdio": "", "http": "protocol", "sse": ""}),
    ("odd_messages", {}, everywhere("")),
    ("flood", {"times": 3_000}, everywhere("")),
    ("huge", {"size": TOO_MUCH}, everywhere("protocol")),
    ("huge_id_last", {"size": TOO_MUCH}, everywhere("protocol")),
    ("huge_unknown", {"size": TOO_MUCH}, {"http": "protocol"}),
    ("intricate", {"values": 1_000}, everywhere("")),
    ("squeezed", {"size": 1_000}, {"http": ""}),
    ("squeezed", {"size": TOO_MUCH}, {"http": "protocol"}),
    *[("status", {"code": code}, REMOTE_TRANSPORT) for code in (400, 401, 403, 404, 429, 500, 502, 503)],
    ("status", {"code": 204}, {"http": "protocol"}),
    ("elsewhere", {}, REMOTE_TRANSPORT),
    ("html", {}, {"http": "protocol"}),
    ("html_error", {}, REMOTE_TRANSPORT),
    ("no_answer", {}, {"http": "protocol"}),
    ("cut", {}, {"http": "transport"}),
    ("cut_body", {}, {"http": "transport"}),
    ("hang_up", {}, REMOTE_TRANSPORT),
]
AT_THE_DEADLINE: list[Case] = [
    ("sleep", {"seconds": 600}, everywhere("timeout")),
    ("garbage", {}, {"stdio": "timeout", "sse": "timeout"}),
    ("wrong_id", {}, {"stdio": "timeout", "sse": "timeout"}),
    ("huge_unknown", {"size": TOO_MUCH}, {"stdio": "timeout", "sse": "timeout"}),
    ("html", {}, {"sse": "timeout"}),
]


def over(transport: Transport, cases: list[Case]) -> list[tuple[str, dict[str, Any], str]]:
    return [(tool, arguments, kinds[transport]) for tool, arguments, kinds in cases if transport in kinds]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=TRANSPORTS)
async def patient(request: pytest.FixtureRequest) -> AsyncIterator[Faulty]:
    async with faulty(request.param) as peer:
        yield peer


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=TRANSPORTS)
async def hasty(request: pytest.FixtureRequest) -> AsyncIterator[Faulty]:
    async with faulty(request.param, timeout_s=LIMIT_S) as peer:
        yield peer


async def test_a_malformed_response_fails_its_own_call_at_once_and_no_other(patient: Faulty) -> None:
    for tool, arguments, kind in over(patient.transport, AT_ONCE):
        result = await patient.call(tool, **arguments)
        assert (failure_kind(result) if result.isError else "") == kind, (tool, arguments)
        await patient.recovered()


async def test_a_call_whose_response_cannot_be_matched_ends_at_its_deadline(hasty: Faulty) -> None:
    pid = await pid_of(hasty.plane)
    await compile_checks(hasty.plane)
    cases = over(hasty.transport, AT_THE_DEADLINE)
    calling = [asyncio.create_task(hasty.call(tool, **arguments)) for tool, arguments, _ in cases]
    await hasty.call("echo")
    pass_time(LIMIT_S)
    for (tool, arguments, kind), result in zip(cases, await asyncio.gather(*calling), strict=True):
        assert failure_kind(result) == kind, (tool, arguments)
    await hasty.recovered()
    assert await pid_of(hasty.plane) == pid


async def test_a_response_that_is_too_large_is_reported_and_other_calls_continue(patient: Faulty) -> None:
    assert "too large" in text_of(await patient.call("huge", size=TOO_MUCH))
    refused = await patient.call("intricate", values=MAX_MESSAGE_VALUES + 50_000)
    assert "too large to be read" in text_of(refused)
    assert failure_kind(refused) == "protocol"
    assert patient.plane.health()["peer"]["state"] == "ready"


async def test_a_refused_call_does_not_end_the_session_of_an_open_call(patient: Faulty) -> None:
    refusals: list[Case] = [("html_error", {}, REMOTE_TRANSPORT)]
    refusals += [("status", {"code": code}, REMOTE_TRANSPORT) for code in (400, 429, 500, 503)]
    open_call = asyncio.create_task(patient.plane.call("peer", "wait", {}, CallContext()))
    for tool, arguments, kind in over(patient.transport, refusals):
        assert failure_kind(await patient.call(tool, **arguments)) == kind
        await patient.recovered()

    assert not (await patient.call("release")).isError
    async with asyncio.timeout(BOUND_S):
        assert not (await open_call).isError
