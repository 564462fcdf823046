"""Endpoints of assistants: keep, find and change them, version by version."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import empty_answer, json_answer, page_headers, selected
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.json_schema import BOOLEAN
from toolweave.api.langgraph.requests import Body, path_uuid, query_flag, read_body, uuid_of
from toolweave.api.langgraph.run_requests import CONTEXT_CONFLICT
from toolweave.api.langgraph.served import Served, served
from toolweave.api.langgraph.wire import assistant_json, assistant_version_json
from toolweave.errors import BadRequest, NotFound
from toolweave.runtime.models import Assistant, AssistantPatch, mirrored

CREATE = body_schema("AssistantCreate")
PATCH = body_schema("AssistantPatch")
SEARCH = body_schema("AssistantSearchRequest")
COUNT = body_schema("AssistantCountRequest")
VERSIONS = body_schema("AssistantVersionsSearchRequest")
LATEST = body_schema("AssistantVersionChange")
UNTITLED = "Untitled"
THREADS_AT_A_TIME = 100


async def create(request: Request) -> Response:
    """Create an assistant; one that exists is a conflict, or the answer."""
    body = await read_body(request, CREATE)
    here = served(request)
    given_id = body.get("assistant_id")
    assistant_id = str(uuid4()) if given_id is None else uuid_of(given_id, "assistant")
    _check_content(here, body)
    config, context = mirrored(body.get("config", {}), body.get("context", {}))
    now = datetime.now(UTC)
    assistant = Assistant(
        assistant_id=assistant_id,
        graph_id=body.fields["graph_id"],
        config=config,
        context=context,
        metadata=body.get("metadata", {}),
        name=body.get("name") or UNTITLED,
        description=body.get("description"),
        version=1,
        created_at=now,
        updated_at=now,
    )
    kept = await here.persistence.assistants.create(assistant, body.get("if_exists", "raise"))
    return json_answer(assistant_json(kept), headers=body.headers())


async def patch(request: Request) -> Response:
    """Change an assistant; the answer is its new version."""
    assistant_id = path_uuid(request, "assistant")
    body = await read_body(request, PATCH)
    here = served(request)
    _check_content(here, body)
    changed = await here.persistence.assistants.patch(assistant_id, AssistantPatch(**body.fields))
    return json_answer(assistant_json(changed), headers=body.headers())


async def delete(request: Request) -> Response:
    """Delete an assistant with its crons and, when asked to, the threads that it ran on last."""
    assistant_id = path_uuid(request, "assistant")
    with_threads = query_flag(request, "delete_threads")
    here = served(request)
    if with_threads:
        await _delete_threads(here, assistant_id)
    await here.persistence.assistants.delete(assistant_id)
    return empty_answer(204)


async def search(request: Request) -> Response:
    """Find assistants, newest first unless asked otherwise."""
    body = await read_body(request, SEARCH)
    wanted = _wanted(served(request), body)
    limit, offset = body.get("limit", 10), body.get("offset", 0)
    repository = served(request).persistence.assistants
    found = await repository.search(
        **wanted, limit=limit + 1, offset=offset, sort_by=body.get("sort_by"), sort_order=body.get("sort_order")
    )
    headers = await page_headers(found, limit=limit, offset=offset, count=lambda: repository.count(**wanted))
    rows = [selected(assistant_json(assistant), body.get("select")) for assistant in found[:limit]]
    return json_answer(rows, headers={**headers, **body.headers()})


async def count(request: Request) -> Response:
    """Count assistants."""
    body = await read_body(request, COUNT)
    here = served(request)
    found = await here.persistence.assistants.count(**_wanted(here, body))
    return json_answer(found, headers=body.headers())


async def get(request: Request) -> Response:
    """Give an assistant."""
    assistant = await served(request).persistence.assistants.get(path_uuid(request, "assistant"))
    return json_answer(assistant_json(assistant))


async def versions(request: Request) -> Response:
    """List an assistant's versions, newest first."""
    assistant_id = path_uuid(request, "assistant")
    body = await read_body(request, VERSIONS)
    found = await served(request).persistence.assistants.versions(
        assistant_id, metadata=body.get("metadata"), limit=body.get("limit", 10), offset=body.get("offset", 0)
    )
    return json_answer([assistant_version_json(version) for version in found], headers=body.headers())


async def latest(request: Request) -> Response:
    """Make a version the active one."""
    assistant_id = path_uuid(request, "assistant")
    body = await read_body(request, LATEST)
    active = await served(request).persistence.assistants.set_latest(assistant_id, body.get("version"))
    return json_answer(assistant_json(active), headers=body.headers())


def _check_content(here: Served, body: Body) -> None:
    """Refuse a graph that is not served, and two sources of the same values."""
    configurable = body.get("config", {}).get("configurable")
    if configurable and body.get("context"):
        raise BadRequest(CONTEXT_CONFLICT)
    if "graph_id" in body.fields:
        here.require_graph(body.fields["graph_id"])


def _wanted(here: Served, body: Body) -> dict[str, Any]:
    """Give the filters of a search; a graph that is not served is not found."""
    graph_id = body.get("graph_id")
    if graph_id is not None:
        here.require_graph(graph_id)
    return {"metadata": body.get("metadata"), "graph_id": graph_id, "name": body.get("name")}


async def _delete_threads(here: Served, assistant_id: str) -> None:
    # The assistant goes last: if the process dies in between, it is still there to be deleted again.
    await here.persistence.assistants.get(assistant_id)
    while True:
        found = await here.persistence.threads.search(metadata={"assistant_id": assistant_id}, limit=THREADS_AT_A_TIME)
        if not found:
            return
        for thread in found:
            with suppress(NotFound):
                await here.engine.delete_thread(thread.thread_id)


_BOTH = (404, 422)
_ONE = "/assistants/{assistant_id}"
_TAG = "Assistants"
_DELETE_THREADS = (Query("delete_threads", BOOLEAN),)

ENDPOINTS = (
    Endpoint(
        "POST",
        "/assistants",
        create,
        "Create an assistant",
        _TAG,
        "AssistantCreate",
        "Assistant",
        errors=(400, 404, 409, 422),
    ),
    Endpoint(
        "POST",
        "/assistants/search",
        search,
        "Search assistants",
        _TAG,
        "AssistantSearchRequest",
        "Assistant",
        answers_list=True,
        errors=_BOTH,
    ),
    Endpoint(
        "POST",
        "/assistants/count",
        count,
        "Count assistants",
        _TAG,
        "AssistantCountRequest",
        "Count",
        errors=_BOTH,
    ),
    Endpoint("GET", _ONE, get, "Get an assistant", _TAG, answer="Assistant", errors=_BOTH),
    Endpoint("PATCH", _ONE, patch, "Change an assistant", _TAG, "AssistantPatch", "Assistant", errors=(400, 404, 422)),
    Endpoint("DELETE", _ONE, delete, "Delete an assistant", _TAG, status=204, errors=_BOTH, query=_DELETE_THREADS),
    Endpoint(
        "POST",
        f"{_ONE}/versions",
        versions,
        "List an assistant's versions",
        _TAG,
        "AssistantVersionsSearchRequest",
        "AssistantVersion",
        answers_list=True,
        errors=_BOTH,
    ),
    Endpoint(
        "POST",
        f"{_ONE}/latest",
        latest,
        "Choose the active version",
        _TAG,
        "AssistantVersionChange",
        "Assistant",
        errors=_BOTH,
    ),
)
