"""Webhooks go to other servers under the policy, and to paths of our own without a socket."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi import FastAPI, Request, Response

from tests.outbound.peers import Names, always, certificates, policy, serving, text
from toolweave.api.langgraph.webhooks import WebhookRules, open_webhook_sender, sending_webhooks
from toolweave.config.langgraph_json import WebhookUrlRules, load_langgraph_json
from toolweave.config.settings import Settings
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound import OutboundPolicy
from toolweave.runtime.codec import utc_now
from toolweave.runtime.persistence.data_folder import open_persistence
from toolweave.runtime.persistence.webhooks import WebhookDelivery, insert_delivery

pytestmark = pytest.mark.requirement("W-09")

OWN = FastAPI()
HEARD: list[tuple[str, dict[str, str], bytes]] = []
OPEN = WebhookUrlRules(disable_loopback=False, require_https=False)


@OWN.post("/hook")
async def hook(request: Request, status: int = 200) -> Response:
    HEARD.append((str(request.url), dict(request.headers), await request.body()))
    return Response(status_code=status)


@OWN.post("/raises")
async def raises() -> None:
    raise RuntimeError("a mistake of the application")


@OWN.post("/hangs")
async def hangs() -> None:
    await asyncio.Event().wait()


def rules(chosen: OutboundPolicy | None = None, written: WebhookUrlRules = OPEN) -> WebhookRules:
    return WebhookRules(written, chosen or policy(max_redirects=0))


async def test_a_path_is_posted_to_our_own_application() -> None:
    HEARD.clear()
    async with open_webhook_sender(OWN, WebhookRules(OPEN, policy(), {"x-tenant": "blue"})) as send:
        assert await send("/hook?status=201&a=%20b", {"webhook-id": "1"}, b"{}") == 201
        assert await send("/nowhere", {}, b"{}") == 404
        # What looks like another host is a path of ours.
        assert await send("//other.example/hook", {}, b"{}") == 404
    ((url, headers, body),) = HEARD
    assert (url, body) == ("http://127.0.0.1/hook?status=201&a=%20b", b"{}")
    assert (headers["x-tenant"], headers["webhook-id"], headers["content-type"]) == ("blue", "1", "application/json")


async def test_an_application_that_breaks_or_hangs_is_a_failed_attempt() -> None:
    async def silent(_scope: Any, _receive: Any, _send: Any) -> None:
        raise RuntimeError("a mistake of the application")

    impatient, chosen = rules(policy(total_timeout_s=0.2, max_redirects=0)), rules(policy(max_redirects=0))
    async with open_webhook_sender(OWN, impatient) as send:
        with pytest.raises(OutboundFailed, match=r"within 0\.2 s"):
            await send("/hangs", {}, b"{}")
    async with open_webhook_sender(OWN, chosen) as send, open_webhook_sender(silent, chosen) as send_to_silent:
        assert await send("/raises", {}, b"{}") == 500
        with pytest.raises(OutboundFailed, match="ended without a response"):
            await send_to_silent("/hook", {}, b"{}")


async def test_another_server_gets_the_body_and_its_answer_is_not_read(tmp_path: Path) -> None:
    server, trust = certificates(tmp_path, "hooks.example")
    chosen = policy(resolver=Names(hooks_example=[["127.0.0.1"]]), max_redirects=0, max_response_bytes=0)
    async with (
        serving(always(text("202 Accepted", b"x" * 100_000)), server) as peer,
        open_webhook_sender(OWN, rules(chosen), trust=trust) as send,
    ):
        assert await send(f"https://hooks.example:{peer.port}/h?k=1", {"webhook-id": "1"}, b'{"a":1}') == 202
    (request,) = peer.requests
    assert (request.line, request.body) == ("POST /h?k=1 HTTP/1.1", b'{"a":1}')
    assert (request.header("webhook-id"), request.header("content-type")) == ("1", "application/json")


async def test_a_redirect_is_an_answer_and_not_followed() -> None:
    async with serving(always(text())) as other:
        location = f"Location: http://127.0.0.1:{other.port}/"
        async with (
            serving(always(text("307 Temporary", b"", location))) as peer,
            open_webhook_sender(OWN, rules()) as send,
        ):
            assert await send(f"http://127.0.0.1:{peer.port}/", {}, b"{}") == 307
        assert other.requests == []


async def test_a_webhook_that_the_rules_do_not_allow_any_more_is_not_sent() -> None:
    HEARD.clear()
    strict = rules(policy("", resolver=Names(rebound_example=[["127.0.0.1"]])), WebhookUrlRules())
    async with serving(always(text())) as peer, open_webhook_sender(OWN, strict) as send:
        for url in ("/hook", f"http://127.0.0.1:{peer.port}/", f"https://rebound.example:{peer.port}/"):
            with pytest.raises(OutboundRefused):
                await send(url, {}, b"{}")
        assert peer.requests == []
    assert HEARD == []


async def sent_by(tmp_path: Path, http_section: dict[str, Any], app: FastAPI = OWN) -> int:
    """Deliver one webhook that waits; return how many the application has received."""
    file = tmp_path / "langgraph.json"
    file.write_text(json.dumps({"graphs": {"g": "a.b:c"}, "http": http_section}), encoding="utf-8")
    async with open_persistence(tmp_path) as persistence:
        HEARD.clear()
        delivery = WebhookDelivery(str(uuid4()), "run", "/hook", b'{"a":1}')
        await persistence.app.write(lambda connection: insert_delivery(connection, delivery, utc_now()))
        async with sending_webhooks(app, persistence.webhooks, rules(), load_langgraph_json(file), Settings()):
            async with asyncio.timeout(60):
                waiting = "SELECT 1 FROM webhook_deliveries WHERE next_attempt_at IS NOT NULL"
                while await persistence.app.read(lambda connection: connection.exec_driver_sql(waiting).first()):
                    await persistence.app.write(lambda _: None)
    return len(HEARD)


async def test_webhooks_that_langgraph_json_switches_off_are_dropped(tmp_path: Path) -> None:
    assert await sent_by(tmp_path, {}) == 1
    assert await sent_by(tmp_path, {"disable_webhooks": True}) == 0


async def test_a_path_begins_where_the_server_is_mounted(tmp_path: Path) -> None:
    assert await sent_by(tmp_path, {"mount_prefix": "/api"}) == 0
    mounted = FastAPI()
    mounted.mount("/api", OWN)
    assert await sent_by(tmp_path, {"mount_prefix": "/api"}, mounted) == 1
