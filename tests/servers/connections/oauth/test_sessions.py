"""Sessions with a real server that requires OAuth: tokens are issued, renewed and refused."""

import asyncio
from pathlib import Path

import httpx

from tests.fixtures.mcp_server import free_port
from tests.servers.connections.oauth.guarded import (
    Guarded,
    failed_attempts,
    file_place,
    guarded_server,
    listener,
    plane_for,
    signed_in,
    stored_grant,
)
from tests.servers.connections.peers import BOUND_S, call, failure_kind, text_of, until
from toolweave.servers.connections.oauth import TokenLocation
from toolweave.servers.connections.oauth.authorization import open_authorization
from toolweave.servers.connections.oauth.login import sign_out
from toolweave.servers.connections.plane import ToolPlane


def last_error(plane: ToolPlane) -> str:
    return plane.health()["peer"]["last_error"] or ""


async def test_client_credentials_open_a_session_and_replace_a_token_that_is_refused(guarded: Guarded) -> None:
    async with plane_for(guarded.machine()) as plane:
        assert text_of(await call(plane, "echo", text="hello")) == "hello"
        assert await guarded.request_count("client_credentials") == 1
        await guarded.tell(revoke="access")
        assert text_of(await call(plane, "echo", text="hello")) == "hello"
        assert plane.health()["peer"]["state"] == "ready"
    assert (await guarded.request_count("client_credentials"), await guarded.request_count("register")) == (2, 0)


async def test_only_the_configured_scope_is_requested(guarded: Guarded) -> None:
    for scope, expected in (("more", "more"), (None, "tools more")):
        async with plane_for(guarded.machine(scope=scope)):
            pass
        assert (await guarded.recorded())["forms"][-1]["scope"] == expected


async def test_a_refused_secret_is_reported_and_not_tried_again_without_a_reconnect(guarded: Guarded) -> None:
    async with plane_for(guarded.machine(client_secret="wrong-s3cr3t"), state="down") as plane:
        await failed_attempts(plane, 5)
        assert last_error(plane) == "its authorization server rejects the request: invalid_client"
        assert await guarded.request_count("client_credentials") == 1
        await plane.reconnect("peer")
        assert await guarded.request_count("client_credentials") == 2


async def test_a_secret_is_sent_to_the_configured_authorization_server_only(guarded: Guarded) -> None:
    # Without an issuer, the server's own origin is meant; this one names another.
    async with plane_for(guarded.machine(issuer=None), state="down") as plane:
        assert f"the server names {guarded.login}/ as its authorization server" in last_error(plane)
        assert "set auth.issuer" in last_error(plane)
    assert (await guarded.recorded())["forms"] == []


async def test_an_absent_authorization_server_is_named(guarded: Guarded) -> None:
    gone = f"http://127.0.0.1:{free_port()}"
    await guarded.tell(set={"authorization_server": gone})
    async with plane_for(guarded.machine(issuer=gone), state="down") as plane:
        assert last_error(plane) == f"{gone} cannot be reached for its authorization (ConnectError)"
        await guarded.tell(set={"authorization_server": ""})


async def test_without_a_sign_in_no_request_is_sent_and_a_later_one_is_used(guarded: Guarded, tmp_path: Path) -> None:
    place = file_place(tmp_path)
    async with plane_for(guarded.config(), place, state="down") as plane:
        await failed_attempts(plane, 5)
        assert last_error(plane) == "needs a sign-in: run `toolweave servers login peer`"
        state = await guarded.recorded()
        assert (state["requested"], state["seen"]) == ([], [])
        await signed_in(guarded.config(), place)
        await until(plane, "ready")
        assert text_of(await call(plane, "echo", text="hello")) == "hello"


async def test_a_refused_token_is_renewed_once_for_all_calls_and_open_calls_continue(
    guarded: Guarded, tokens: TokenLocation
) -> None:
    first = stored_grant(guarded.config(), tokens)
    config = guarded.config(timeout_s=BOUND_S)
    async with plane_for(config, tokens) as plane:
        open_call = asyncio.create_task(call(plane, "hold"))
        await guarded.until_requested("hold")
        await guarded.tell(revoke="access")
        results = await asyncio.gather(*(call(plane, "echo", text=str(number)) for number in range(20)))
        assert [text_of(result) for result in results] == [str(number) for number in range(20)]
        await guarded.tell(release=True)
        assert text_of(await open_call) == "held"
    assert (await guarded.request_count("refresh_token"), await guarded.request_count("reuse")) == (1, 0)
    renewed = stored_grant(config, tokens)
    assert renewed.tokens.refresh_token != first.tokens.refresh_token
    assert (await guarded.recorded())["access"] == [renewed.access_token]


async def test_a_request_that_is_refused_after_a_renewal_is_sent_again_with_the_new_token(guarded: Guarded) -> None:
    tokens: list[str] = []
    refused: set[str | None] = {None}
    received, renewed = asyncio.Event(), asyncio.Event()

    async def respond(request: httpx.Request) -> httpx.Response:
        if request.headers.get("authorization") not in refused:
            return httpx.Response(200)
        if request.url.path == "/late":
            received.set()
            await renewed.wait()
        return httpx.Response(401)

    async with (
        open_authorization(guarded.machine(), None, tokens.append) as auth,
        httpx.AsyncClient(auth=auth, transport=httpx.MockTransport(respond), base_url="http://peer") as client,
        asyncio.timeout(BOUND_S),
    ):
        await client.get("/first")
        refused.add(f"Bearer {tokens[-1]}")
        late = asyncio.create_task(client.get("/late"))
        await received.wait()
        assert (await client.get("/early")).status_code == 200
        renewed.set()
        assert (await late).status_code == 200
    assert await guarded.request_count("client_credentials") == 2


async def test_an_expired_token_is_renewed_before_it_is_sent_and_stored(
    guarded: Guarded, tokens: TokenLocation
) -> None:
    old = stored_grant(guarded.config(), tokens, expires_at=1.0)
    for _ in range(2):
        async with plane_for(guarded.config(), tokens) as plane:
            assert text_of(await call(plane, "echo", text="hello")) == "hello"
    seen = (await guarded.recorded())["seen"]
    assert (await guarded.request_count("register"), await guarded.request_count("refresh_token")) == (1, 1)
    assert f"Bearer {old.access_token}" not in seen


async def test_a_refresh_token_that_is_not_repeated_stays_in_use(guarded: Guarded, tokens: TokenLocation) -> None:
    await guarded.tell(set={"rotate": False, "repeat_refresh": False, "expires_in": None})
    async with plane_for(guarded.config(), tokens) as plane:
        for _ in range(3):
            await guarded.tell(revoke="access")
            assert text_of(await call(plane, "echo", text="hello")) == "hello"
    assert await guarded.request_count("refresh_token") == 3


async def test_an_expired_sign_in_is_reported_and_replaced_by_a_new_one(
    guarded: Guarded, tokens: TokenLocation
) -> None:
    async with plane_for(guarded.config(), tokens) as plane:
        await guarded.tell(revoke="all")
        assert failure_kind(await call(plane, "echo", text="hello"))
        await until(plane, "down")
        await failed_attempts(plane, 5)
        refusal = "its authorization server rejects the request: invalid_grant"
        needed = f"needs a sign-in ({refusal}): run `toolweave servers login peer`"
        assert last_error(plane) == needed
        assert await guarded.request_count("refresh_token") == 1
        await signed_in(guarded.config(), tokens)
        await until(plane, "ready")
        assert text_of(await call(plane, "echo", text="hello")) == "hello"


async def test_a_failing_authorization_server_loses_no_tokens(guarded: Guarded, tokens: TokenLocation) -> None:
    await guarded.tell(revoke="access", set={"token_status": 503})
    async with plane_for(guarded.config(), tokens, state="down") as plane:
        assert last_error(plane) == "its authorization server failed (HTTP 503 Service Unavailable)"
        await guarded.tell(set={"token_status": 0})
        await until(plane, "ready")


async def test_a_server_that_rejects_a_new_token_is_not_retried_without_a_reconnect(
    guarded: Guarded, tokens: TokenLocation
) -> None:
    await guarded.tell(set={"refuse_all": True})
    async with plane_for(guarded.config(), tokens, state="down") as plane:
        await failed_attempts(plane, 5)
        assert last_error(plane) == "it rejects the new token of its authorization server"
        assert await guarded.request_count("refresh_token") == 2
        await guarded.tell(set={"refuse_all": False})
        assert (await plane.reconnect("peer"))["state"] == "ready"


async def test_a_cancelled_call_does_not_cancel_the_renewal(guarded: Guarded, tokens: TokenLocation) -> None:
    async with plane_for(guarded.config(timeout_s=BOUND_S), tokens) as plane:
        await guarded.tell(revoke="access", set={"hold_token": True})
        leaving = asyncio.create_task(call(plane, "echo", text="hello"))
        await guarded.until_requested("refresh_token")
        leaving.cancel()
        staying = asyncio.create_task(call(plane, "echo", text="hello"))
        await asyncio.wait({leaving})
        await guarded.tell(set={"hold_token": False}, release=True)
        assert text_of(await staying) == "hello"
    assert (await guarded.request_count("refresh_token"), await guarded.request_count("reuse")) == (1, 0)


async def test_closing_the_plane_waits_for_a_renewal_and_stores_its_tokens(
    guarded: Guarded, tokens: TokenLocation
) -> None:
    first = stored_grant(guarded.config(), tokens)
    async with plane_for(guarded.config(timeout_s=BOUND_S), tokens) as plane:
        await guarded.tell(revoke="access", set={"hold_token": True})
        late = asyncio.create_task(call(plane, "echo", text="hello"))
        await guarded.until_requested("refresh_token")
        closing = asyncio.create_task(plane.stop())
        assert failure_kind(await late)
        await guarded.tell(set={"hold_token": False}, release=True)
        await closing
    assert stored_grant(guarded.config(), tokens).access_token != first.access_token


async def test_after_a_sign_out_a_reconnect_needs_a_sign_in(guarded: Guarded, tokens: TokenLocation) -> None:
    async with plane_for(guarded.config(), tokens) as plane:
        assert await sign_out(guarded.config(), tokens)
        assert not await sign_out(guarded.config(), tokens)
        assert (await plane.reconnect("peer"))["state"] == "down"
        assert last_error(plane) == "needs a sign-in: run `toolweave servers login peer`"


async def test_tokens_are_not_sent_to_another_url_or_by_another_client(guarded: Guarded, tokens: TokenLocation) -> None:
    async with listener() as (origin, received):
        moved = guarded.config(url=f"{origin}/mcp")
        async with plane_for(moved, tokens, state="down") as plane:
            await failed_attempts(plane, 2)
            assert "needs a sign-in" in last_error(plane)
        assert received == []
    other_client = guarded.config(guarded.config().auth.model_copy(update={"client_id": "fixed-client"}))  # type: ignore[union-attr]
    async with plane_for(other_client, tokens, state="down") as plane:
        assert "needs a sign-in" in last_error(plane)


async def test_a_response_without_a_stream_delays_no_other_call() -> None:
    async with guarded_server("http", "--json") as guarded:
        config = guarded.machine()
        async with plane_for(config) as plane:
            open_call = asyncio.create_task(call(plane, "hold"))
            await guarded.until_requested("hold")
            assert text_of(await call(plane, "echo", text="meanwhile")) == "meanwhile"
            await guarded.tell(release=True)
            assert text_of(await open_call) == "held"


async def test_it_is_the_same_over_sse(tmp_path: Path) -> None:
    place = file_place(tmp_path)
    async with guarded_server("sse") as guarded:
        await signed_in(guarded.config(), place)
        async with plane_for(guarded.config(), place) as plane:
            await guarded.tell(revoke="access")
            assert text_of(await call(plane, "echo", text="hello")) == "hello"
            assert await guarded.request_count("refresh_token") == 1
            await guarded.tell(revoke="all")
            assert failure_kind(await call(plane, "echo", text="hello"))
            await until(plane, "down")
            assert "needs a sign-in" in last_error(plane)
