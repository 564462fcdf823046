"""The server posts an ended run to its webhook (langgraph_api.md 5.11)."""

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.api.langgraph.steering import Thread, new_thread, run_at_gate

LANGGRAPH_JSON = Path(__file__).parent / "webhook_app" / "langgraph.json"
KEY = b"0123456789abcdef01234567"
SERVER_ENV = {"TOOLWEAVE_WEBHOOK_SECRET": f"whsec_{base64.b64encode(KEY).decode()}"}
pytestmark = pytest.mark.databases("sqlite", "postgresql", reason="the application that gets webhooks has one process")
INPUT = {"n": 1}
KEYS = [
    *("run_id", "thread_id", "assistant_id", "metadata", "status", "kwargs", "multitask_strategy", "created_at"),
    *("updated_at", "langsmith_session_name", "run_started_at", "run_ended_at", "values", "webhook_sent_at"),
]


def new_hook() -> tuple[str, str]:
    """Make up a key, and the path of a hook that files the received webhooks under it."""
    key = str(uuid4())
    return key, f"/hook?k={key}"


async def first_webhook(http: httpx.AsyncClient, key: str) -> Any:
    """Wait for the first webhook under a key and give its body."""
    return json.loads((await http.get("/webhooks/first", params={"k": key})).json()["body"])


async def no_webhook(http: httpx.AsyncClient, sdk: LangGraphClient, key: str) -> bool:
    """Return whether no webhook with a key has come when a later run's webhook has."""
    later, hook = new_hook()
    await http.post("/runs/wait", json={"assistant_id": "steps", "input": INPUT, "webhook": hook})
    await first_webhook(http, later)
    return bool((await http.get("/webhooks", params={"k": key})).json() == [])


@pytest.mark.parametrize("end", ["", "/wait", "/stream"])
@pytest.mark.api("POST /threads/{thread_id}/runs", "200 posts the ended run to the webhook")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "200 posts the ended run to the webhook")
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "200 posts the ended run to the webhook")
async def test_a_webhook_gets_the_run_as_it_ended_with_values_and_times(
    http: httpx.AsyncClient, thread: Thread, end: str
) -> None:
    key, hook = new_hook()
    body = {"assistant_id": "steps", "input": INPUT, "webhook": hook, "metadata": {"mine": 1}}
    await thread.post(f"/runs{end}", json=body)
    webhook = await first_webhook(http, key)
    assert list(webhook) == KEYS
    stored: Any = await thread.run(webhook["run_id"])
    shown = {name: webhook[name] for name in KEYS[:10]}
    assert shown["kwargs"]["config"]["configurable"].pop("__pregel_node_finished") is None
    assert {**shown, "updated_at": None} == {**stored, "updated_at": None}
    assert (webhook["status"], webhook["values"]) == ("success", {"n": 4, "log": ["add", "double"]})
    assert webhook["kwargs"]["webhook"] == hook
    assert webhook["metadata"]["mine"] == 1
    times = [webhook[name] for name in ("created_at", "run_started_at", "run_ended_at", "webhook_sent_at")]
    assert times == sorted(times)
    assert all(time.endswith("+00:00") for time in times)


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 signs the webhook and sends the configured headers")
async def test_a_webhook_is_signed_and_carries_the_configured_headers(http: httpx.AsyncClient, thread: Thread) -> None:
    key, hook = new_hook()
    await thread.create_run("steps", input={"n": 1, "gate": "ä\U0001f600"}, webhook=hook)
    webhook = (await http.get("/webhooks/first", params={"k": key})).json()
    headers = webhook["headers"]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{webhook['body']}".encode()
    signature = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{signature}"
    assert headers["content-type"] == "application/json"
    assert headers["x-tenant"] == "tenant-blue"
    assert headers["user-agent"].startswith("Toolweave/")


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 posts failed, interrupted and cancelled runs to the webhook")
async def test_the_webhook_of_a_failed_run_has_its_error_and_the_metadata_of_the_run(
    http: httpx.AsyncClient, thread: Thread
) -> None:
    key, hook = new_hook()
    run = await thread.create_run("broken", input=INPUT, webhook=hook, metadata={"mine": 1})
    failed = await first_webhook(http, key)
    assert (failed["status"], failed["values"]) == ("error", {"n": 2, "log": ["add"]})
    shown: Any = await thread.show()
    stored: Any = await thread.run(run["run_id"])
    assert failed["error"] == shown["error"] == {"error": "ValueError", "message": "cannot go on from 2"}
    assert failed["metadata"] == stored["metadata"] == run["metadata"]
    assert "error" not in shown["metadata"]


async def test_the_webhook_of_an_interrupted_run_has_its_values_and_no_error(
    http: httpx.AsyncClient, thread: Thread
) -> None:
    key, hook = new_hook()
    await thread.create_run("ask", input=INPUT, webhook=hook)
    interrupted = await first_webhook(http, key)
    assert (interrupted["status"], interrupted["values"]) == ("success", {"n": 1, "log": []})
    assert "error" not in interrupted


@pytest.mark.parametrize(
    ("action", "status", "log", "error"),
    [("interrupt", "interrupted", ["add"], "UserInterrupt"), ("rollback", "rollback", None, "UserRollback")],
)
async def test_the_webhook_of_a_cancelled_run_names_the_request(
    http: httpx.AsyncClient, thread: Thread, action: Any, status: str, log: Any, error: str
) -> None:
    key, hook = new_hook()
    run_id, _ = await thread.run_at_gate(webhook=hook)
    await thread.cancel(run_id, wait=True, action=action)
    cancelled = await first_webhook(http, key)
    assert cancelled["status"] == status
    assert (cancelled["values"] and cancelled["values"]["log"]) == log
    message = f"{action} requested via POST /threads/{{thread_id}}/runs/{{run_id}}/cancel"
    assert cancelled["error"] == {"error": error, "message": message}


@pytest.mark.parametrize(("strategy", "status"), [("interrupt", "interrupted"), ("rollback", "rollback")])
async def test_the_webhook_of_a_replaced_run_names_the_reason(
    http: httpx.AsyncClient, thread: Thread, strategy: Any, status: str
) -> None:
    key, hook = new_hook()
    later, later_hook = new_hook()
    await thread.run_at_gate(webhook=hook)
    second = await thread.create_run("steps", input=INPUT, multitask_strategy=strategy, webhook=later_hook)
    first = await first_webhook(http, key)
    assert first["status"] == status
    assert first["error"]["message"] == f"superseded by run {second['run_id']} (multitask_strategy={strategy})"
    assert (await first_webhook(http, later))["status"] == "success"


async def test_the_webhook_of_a_run_whose_client_disconnected_names_the_reason(http: httpx.AsyncClient) -> None:
    key, hook = new_hook()
    gate = str(uuid4())
    body = {"assistant_id": "gated", "input": {"gate": gate}, "webhook": hook, "on_disconnect": "cancel"}
    async with http.stream("POST", "/runs/stream", json=body):
        await http.get(f"/gates/{gate}/reached")
    left = await first_webhook(http, key)
    assert (left["status"], left["values"]) == ("interrupted", None)
    assert left["error"]["message"].startswith("client disconnected")


@pytest.mark.api("POST /threads/{thread_id}/runs", "200 posts no run that never ran or was deleted to the webhook")
async def test_no_webhook_is_sent_for_runs_that_never_ran_or_were_deleted(
    http: httpx.AsyncClient, sdk: LangGraphClient
) -> None:
    keys, hooks = zip(*(new_hook() for _ in range(4)), strict=True)
    actions: tuple[Any, ...] = ("interrupt", "rollback")
    for action, hook in zip(actions, hooks[:2], strict=True):
        thread_id = await new_thread(sdk)
        run = await sdk.runs.create(thread_id, "steps", input=INPUT, webhook=hook, after_seconds=3600)
        await sdk.runs.cancel(thread_id, run["run_id"], wait=True, action=action)
    run_id, _ = await run_at_gate(sdk, http, thread_id, webhook=hooks[2])
    await sdk.runs.delete(thread_id, run_id)
    await run_at_gate(sdk, http, thread_id, webhook=hooks[3])
    await sdk.threads.delete(thread_id)
    for key in keys:
        assert await no_webhook(http, sdk, key)


@pytest.mark.parametrize("path", ["/runs", "/runs/stream"])
@pytest.mark.api("POST /runs", "200 posts the ended run to the webhook")
@pytest.mark.api("POST /runs/stream", "200 posts the ended run to the webhook")
async def test_a_stateless_run_is_posted_to_its_webhook(http: httpx.AsyncClient, path: str) -> None:
    key, hook = new_hook()
    created = await http.post(path, json={"assistant_id": "steps", "input": INPUT, "webhook": hook})
    webhook = await first_webhook(http, key)
    assert (webhook["status"], webhook["values"]) == ("success", None)
    assert created.headers["content-location"].endswith(webhook["run_id"])


@pytest.mark.api("POST /runs/wait", "200 posts the ended run without values to the webhook though its thread is gone")
async def test_the_webhook_of_a_run_without_a_thread_has_no_values(http: httpx.AsyncClient) -> None:
    key, hook = new_hook()
    body = {"assistant_id": "broken", "input": INPUT, "webhook": hook}
    await http.post("/runs/wait", json=body)
    webhook = await first_webhook(http, key)
    assert (webhook["status"], webhook["values"], webhook["error"]["error"]) == ("error", None, "ValueError")
    assert (await http.get(f"/threads/{webhook['thread_id']}")).status_code == 404
    key, hook = new_hook()
    await http.post("/runs/wait", json={**body, "assistant_id": "steps", "webhook": hook, "on_completion": "keep"})
    assert (await first_webhook(http, key))["values"] == {"n": 4, "log": ["add", "double"]}


@pytest.mark.api("POST /runs/batch", "200 posts each ended run to its webhook")
async def test_each_run_of_a_batch_is_posted_to_its_own_webhook(http: httpx.AsyncClient) -> None:
    hooks = [new_hook() for _ in range(3)]
    bodies = [{"assistant_id": "steps", "input": {"n": n}, "webhook": hook} for n, (_, hook) in enumerate(hooks)]
    runs = (await http.post("/runs/batch", json=bodies)).json()
    for run, (key, _) in zip(runs, hooks, strict=True):
        assert (await first_webhook(http, key))["run_id"] == run["run_id"]


async def test_a_webhook_that_cannot_be_delivered_affects_no_run(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread: Thread, app_server: Any
) -> None:
    query = "SELECT count(given_up_at) FROM webhook_deliveries"
    database = app_server.app.state.services.persistence.app
    before = await database.read(lambda connection: connection.exec_driver_sql(query).scalar())
    key, hook = new_hook()
    for nowhere in ("/nowhere", f"{hook}&status=410"):
        body = {"assistant_id": "steps", "input": INPUT, "webhook": nowhere}
        assert (await thread.post("/runs/wait", json=body)).status_code == 200
    await first_webhook(http, key)
    assert await no_webhook(http, sdk, "nowhere")
    assert await database.read(lambda connection: connection.exec_driver_sql(query).scalar()) == before + 2


INVALID: tuple[Any, ...] = (
    "",
    3,
    [],
    {"url": "https://example.org"},
    "not a url",
    "hook",
    "?k=x",
    " /hook",
    "\\hook",
    "/hook\r\nX-Injected: 1",
    "/hook\x00",
    "/ho\\ok",
    "http://93.184.216.34/",
    "ftp://93.184.216.34/",
    "file:///etc/passwd",
    "https://",
    "https:///x",
    "https://user:secret@93.184.216.34/",
    "https://93.184.216.34:0/",
    "https://93.184.216.34:99999/",
    "https://10.0.0.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://[::ffff:127.0.0.1]/",
    "https://2130706433/",
    "https://name.invalid/",
    f"/{'x' * 2048}",
    f"https://93.184.216.34/{'x' * 2048}",
    f"/{'x' * 70_000}",
)


@pytest.mark.parametrize(
    "path",
    [
        "/threads/{thread_id}/runs",
        "/threads/{thread_id}/runs/wait",
        "/threads/{thread_id}/runs/stream",
        "/runs",
        "/runs/wait",
        "/runs/stream",
        "/runs/crons",
        "/threads/{thread_id}/runs/crons",
    ],
)
@pytest.mark.api("POST /threads/{thread_id}/runs", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /threads/{thread_id}/runs/wait", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /threads/{thread_id}/runs/stream", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /runs", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /runs/wait", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /runs/stream", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /runs/crons", "422 for a webhook that is invalid or not allowed")
@pytest.mark.api("POST /threads/{thread_id}/runs/crons", "422 for a webhook that is invalid or not allowed")
async def test_an_invalid_webhook_is_refused_and_no_run_is_created(
    http: httpx.AsyncClient, sdk: LangGraphClient, thread: Thread, path: str
) -> None:
    for webhook in INVALID:
        body = {"assistant_id": "steps", "input": INPUT, "webhook": webhook}
        if path.endswith("crons"):
            body["schedule"] = "0 0 1 1 *"
        answer = await http.post(path.format(thread_id=thread.id), json=body)
        assert answer.status_code == 422, (webhook, answer.text)
        assert isinstance(answer.json()["detail"], str)
        assert "secret" not in answer.text
    assert await thread.runs() == []
    assert await sdk.crons.count(thread_id=thread.id) == 0


@pytest.mark.api("POST /runs/batch", "422 for a webhook that is invalid or not allowed")
async def test_one_wrong_webhook_refuses_a_whole_batch(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    key, hook = new_hook()
    bodies = [{"assistant_id": "steps", "input": INPUT, "webhook": url} for url in (hook, "https://10.0.0.1/")]
    assert (await http.post("/runs/batch", json=bodies)).status_code == 422
    assert await no_webhook(http, sdk, key)


@pytest.mark.api("PATCH /runs/crons/{cron_id}", "422 for a webhook that is invalid or not allowed")
async def test_a_cron_does_not_change_to_an_invalid_webhook(http: httpx.AsyncClient, sdk: LangGraphClient) -> None:
    cron: Any = await sdk.crons.create("steps", schedule="0 0 1 1 *", input=INPUT, webhook="/hook?k=cron")
    for webhook in INVALID:
        answer = await http.patch(f"/runs/crons/{cron['cron_id']}", json={"webhook": webhook})
        assert answer.status_code == 422, (webhook, answer.text)
    stored = (await http.get(f"/runs/crons/{cron['cron_id']}")).json()
    assert stored["payload"]["webhook"] == "/hook?k=cron"
    await sdk.crons.delete(cron["cron_id"])


@pytest.mark.parametrize(
    "webhook", ["/", "/hook?k=a%20b", "https://127.0.0.1:9/x", "https://localhost/", "https://[::1]/"]
)
async def test_a_webhook_to_this_machine_is_accepted_if_langgraph_json_allows_it(thread: Thread, webhook: str) -> None:
    body = {"assistant_id": "steps", "input": INPUT, "webhook": webhook, "after_seconds": 3600}
    answer = await thread.post("/runs", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["kwargs"]["webhook"] == webhook
