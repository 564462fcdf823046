"""Endpoints of crons: runs at set times."""

from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import empty_answer, json_answer, page_headers, selected
from toolweave.api.langgraph.cron_request import check_cron_fields, cron_run, edited, new_cron
from toolweave.api.langgraph.endpoint import Endpoint
from toolweave.api.langgraph.json_body import Body, checked_body, read_body, read_json
from toolweave.api.langgraph.request_values import path_uuid, uuid_of
from toolweave.api.langgraph.schemas.components import body_schema
from toolweave.api.langgraph.served import Served, served
from toolweave.api.langgraph.wire import cron_json
from toolweave.errors import BadRequest, InvalidRequest, NotFound
from toolweave.runtime.models import Assistant

CREATE = body_schema("CronCreate")
CREATE_ON_THREAD = body_schema("ThreadCronCreate")
PATCH = body_schema("CronPatch")
SEARCH = body_schema("CronSearch")
COUNT = body_schema("CronCountRequest")


async def create(request: Request) -> Response:
    """Create a cron whose runs have threads of their own."""
    return await _create(request, await read_body(request, CREATE), None)


async def create_on_thread(request: Request) -> Response:
    """Create a cron whose runs share a thread."""
    thread_id = path_uuid(request, "thread")
    return await _create(request, await read_body(request, CREATE_ON_THREAD), thread_id)


async def search(request: Request) -> Response:
    """Find crons, newest first unless asked otherwise."""
    body = await read_body(request, SEARCH)
    crons = served(request).persistence.crons
    wanted = {**_filter(body), "enabled": body.get("enabled")}
    limit, offset = body.get("limit", 10), body.get("offset", 0)
    found = await crons.search(
        **wanted, limit=limit + 1, offset=offset, sort_by=body.get("sort_by"), sort_order=body.get("sort_order")
    )
    headers = await page_headers(found, limit=limit, offset=offset, count=lambda: crons.count(**wanted))
    rows = [selected(cron_json(cron), body.get("select")) for cron in found[:limit]]
    return json_answer(rows, headers={**headers, **body.headers()})


async def count(request: Request) -> Response:
    """Count crons."""
    body = await read_body(request, COUNT)
    found = await served(request).persistence.crons.count(**_filter(body))
    return json_answer(found, headers=body.headers())


async def get(request: Request) -> Response:
    """Give a cron."""
    return json_answer(cron_json(await served(request).persistence.crons.get(path_uuid(request, "cron"))))


async def patch(request: Request) -> Response:
    """Change a cron; what is refused of a run is refused here."""
    cron_id = path_uuid(request, "cron")
    value = await read_json(request)
    PATCH.check(value)
    if not value:
        raise BadRequest("Request body cannot be empty")
    body = checked_body(value, PATCH)
    # The one field where null means something.
    fields = {**body.fields, "end_time": None} if value.get("end_time", ...) is None else body.fields
    here, now = served(request), datetime.now(UTC)
    await here.webhooks.require(body.get("webhook"))
    cron = await here.persistence.crons.get(cron_id)
    cron_run(here, edited(cron, fields, now), await here.persistence.assistants.get(cron.assistant_id))
    changed = await here.persistence.crons.update(cron_id, lambda current: edited(current, fields, now))
    return json_answer(cron_json(changed), headers=body.headers())


async def delete(request: Request) -> Response:
    """Delete a cron; runs that it has started go on."""
    await served(request).persistence.crons.delete(path_uuid(request, "cron"))
    return empty_answer(204)


async def _create(request: Request, body: Body, thread_id: str | None) -> Response:
    here = served(request)
    check_cron_fields(body.fields)
    await here.webhooks.require(body.get("webhook"))
    assistant = await _assistant(here, body.fields["assistant_id"])
    cron = new_cron(body.fields, assistant.assistant_id, thread_id)
    # What is refused of a run is refused now, not at every firing.
    cron_run(here, cron, assistant)
    kept = await here.persistence.crons.create(cron)
    return json_answer(cron_json(kept), headers=body.headers())


async def _assistant(here: Served, name_or_id: str) -> Assistant:
    try:
        return await here.assistant(name_or_id)
    except (InvalidRequest, NotFound):
        raise NotFound(f"Assistant '{name_or_id[:200]}' not found") from None


def _filter(body: Body) -> dict[str, Any]:
    assistant_id, thread_id = body.get("assistant_id"), body.get("thread_id")
    return {
        "assistant_id": None if assistant_id is None else uuid_of(assistant_id, "assistant"),
        "thread_id": None if thread_id is None else uuid_of(thread_id, "thread"),
        "metadata": body.get("metadata"),
    }


_ALL = "/runs/crons"
_ONE = f"{_ALL}/{{cron_id}}"
_TAG = "Crons"
_CREATED = (400, 404, 422)

ENDPOINTS = (
    Endpoint("POST", _ALL, create, "Create a cron", _TAG, "CronCreate", "Cron", errors=_CREATED),
    Endpoint(
        "POST",
        "/threads/{thread_id}/runs/crons",
        create_on_thread,
        "Create a cron on a thread",
        _TAG,
        "ThreadCronCreate",
        "Cron",
        errors=_CREATED,
    ),
    Endpoint("POST", f"{_ALL}/search", search, "Search crons", _TAG, "CronSearch", "Cron", answers_list=True),
    Endpoint("POST", f"{_ALL}/count", count, "Count crons", _TAG, "CronCountRequest", "Count"),
    Endpoint("GET", _ONE, get, "Get a cron", _TAG, answer="Cron", errors=(404, 422)),
    Endpoint("PATCH", _ONE, patch, "Change a cron", _TAG, "CronPatch", "Cron", errors=_CREATED),
    Endpoint("DELETE", _ONE, delete, "Delete a cron", _TAG, status=204, errors=(404, 422)),
)
