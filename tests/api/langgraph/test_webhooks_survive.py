"""A webhook that was promised is delivered even if the server is killed."""

import asyncio
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fixtures.app_server import AppProcess
from tests.outbound.peers import Received, serving, text
from toolweave.runtime.persistence.webhooks import ATTEMPT_LEASE
from toolweave.runtime.webhooks import MAX_CONCURRENT_PER_HOST

LANGGRAPH_JSON = Path(__file__).parent / "webhook_app" / "other_servers.json"
SERVER_ENV = {"TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1"}
# On PostgreSQL an attempt that a crash has cut belongs to its process until the end of its lease.
BOUND_S = ATTEMPT_LEASE.total_seconds() + 60.0
# More than are sent to one host at once: some have been begun when the server ends, some have not.
AT_ONCE, RUNS = MAX_CONCURRENT_PER_HOST, MAX_CONCURRENT_PER_HOST + 2


class Receiver:
    """Hears webhooks; at first it answers none of them."""

    def __init__(self) -> None:
        self.answers = False
        self.deliveries: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()

    async def __call__(self, request: Received, writer: asyncio.StreamWriter) -> None:
        self.deliveries.put_nowait((str(request.header("webhook-id")), json.loads(request.body)))
        if not self.answers:
            await asyncio.Event().wait()
        writer.write(text("204 No Content"))

    async def next(self) -> tuple[str, dict[str, Any]]:
        return await asyncio.wait_for(self.deliveries.get(), BOUND_S)


async def finish_runs(url: str, port: int) -> set[str]:
    """Run to the end, on threads of their own or none; gives the runs' ids."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        finished = set()
        for number in range(RUNS):
            body = {"assistant_id": "steps", "input": {"n": number}, "webhook": f"http://127.0.0.1:{port}/{number}"}
            path = "/runs/wait" if number % 2 else f"/threads/{uuid4()}/runs/wait"
            answer = await http.post(path, json={**body, "if_not_exists": "create"})
            assert answer.status_code == 200, answer.text
            finished.add(answer.headers["content-location"].rpartition("/")[2])
    return finished


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 delivers the webhook after a crash")
async def test_webhooks_outlive_a_kill_and_do_not_hold_up_a_stop(app_process: AppProcess) -> None:
    receiver = Receiver()
    async with serving(receiver) as peer:
        await asyncio.to_thread(app_process.start)
        finished = await finish_runs(app_process.url, peer.port)
        begun = dict([await receiver.next() for _ in range(AT_ONCE)])
        await asyncio.to_thread(app_process.kill)
        receiver.answers = True
        await asyncio.to_thread(app_process.start)
        delivered = dict([await receiver.next() for _ in range(RUNS)])
        receiver.answers = False
        await finish_runs(app_process.url, peer.port)
        await receiver.next()
        assert await asyncio.to_thread(app_process.stop) == 0
    assert {body["run_id"] for body in delivered.values()} == finished
    # A receiver recognises the second attempt by its id.
    assert begun.keys() <= delivered.keys()
    assert all(body["status"] == "success" for body in delivered.values())
