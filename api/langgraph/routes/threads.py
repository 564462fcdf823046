"""Endpoints of threads: make, find, change and delete them."""

import re
from uuid import uuid4

from langchain_core.utils.uuid import uuid7
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import empty_answer, extracted, json_answer, page_headers, selected
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.json_schema import STRING
from toolweave.api.langgraph.requests import Body, path_uuid, query_words, read_body, uuid_of
from toolweave.api.langgraph.served import Served, served
from toolweave.api.langgraph.thread_states import apply_supersteps
from toolweave.api.langgraph.thread_ttl import requested_ttl, ttl_json, without_effect
from toolweave.api.langgraph.wire import thread_json
from toolweave.errors import Conflict, InvalidRequest, NotFound, ToolweaveError
from toolweave.runtime.models import JsonObject, Thread

CREATE = body_schema("ThreadCreate")
PATCH = body_schema("ThreadPatch")
SEARCH = body_schema("ThreadSearchRequest")
COUNT = body_schema("ThreadCountRequest")
ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
EXTRACT_ROOTS = ("values", "metadata", "config", "interrupts")


async def create(request: Request) -> Response:
    """Make a thread, with a state to begin with if supersteps are given."""
    body = await read_body(request, CREATE)
    here = served(request)
    thread_id = uuid_of(body.fields["thread_id"], "thread") if "thread_id" in body.fields else str(uuid7())
    threads = here.persistence.threads
    ttl = requested_ttl(body, threads.default_ttl)
    thread = await threads.create(
        thread_id, metadata=body.get("metadata", {}), if_exists=body.get("if_exists", "raise"), ttl=ttl
    )
    headers = body.headers(*without_effect(body, ttl))
    if body.get("supersteps"):
        return await _with_supersteps(here, thread_id, body.fields["supersteps"], headers)
    return json_answer(thread_json(thread), headers=headers)


async def _with_supersteps(
    here: Served, thread_id: str, supersteps: list[JsonObject], headers: dict[str, str]
) -> Response:
    try:
        await apply_supersteps(here, thread_id, supersteps)
    except ToolweaveError as error:
        text = f"Thread {thread_id} was created, but there were problems updating the state: {error}"
        return json_answer({"detail": text}, status=201, headers=headers)
    return json_answer(thread_json(await here.persistence.threads.get(thread_id)), headers=headers)


async def get(request: Request) -> Response:
    """Give a thread, with its time to live if asked for."""
    thread = await served(request).persistence.threads.get(path_uuid(request, "thread"))
    wanted = {word.strip() for text in query_words(request, "include") for word in text.split(",")}
    return json_answer({**thread_json(thread), **(ttl_json(thread) if "ttl" in wanted else {})})


async def patch(request: Request) -> Response:
    """Merge metadata into a thread's, and set its time to live."""
    thread_id = path_uuid(request, "thread")
    body = await read_body(request, PATCH)
    threads = served(request).persistence.threads
    ttl = requested_ttl(body, threads.default_ttl)
    thread = await threads.patch(thread_id, body.get("metadata", {}), ttl)
    headers = body.headers(*without_effect(body, ttl))
    if "return=minimal" in request.headers.get("prefer", ""):
        return empty_answer(204, headers)
    return json_answer(thread_json(thread), headers=headers)


async def delete(request: Request) -> Response:
    """Delete a thread with all it has; what runs on it is stopped."""
    await served(request).engine.delete_thread(path_uuid(request, "thread"))
    return empty_answer(204)


async def copy(request: Request) -> Response:
    """Copy a thread with its history, without its runs; the answer shows no values."""
    thread_id = path_uuid(request, "thread")
    here = served(request)
    persistence = here.persistence
    try:
        source = await persistence.threads.get(thread_id)
    except NotFound:
        raise Conflict("Conflict") from None
    target = str(uuid4())
    # The row comes first: what has none is cleared away.
    made = thread_json(await persistence.threads.create(target, metadata=source.metadata))
    async with here.engine.claimed(target) as claim:
        await persistence.copy_thread_contents(thread_id, claim)
    return json_answer({name: item for name, item in made.items() if name != "values"})


async def search(request: Request) -> Response:
    """Find threads, the last changed first unless asked otherwise."""
    body = await read_body(request, SEARCH)
    paths = _extract_paths(body)
    repository = served(request).persistence.threads
    limit, offset = body.get("limit", 10), body.get("offset", 0)
    wanted = {"metadata": body.get("metadata"), "values": body.get("values"), "status": body.get("status")}
    # No ids are no filter, as in the reference server.
    ids = [uuid_of(thread_id, "thread") for thread_id in body.get("ids", ())] or None
    found = await repository.search(
        ids=ids,
        **wanted,
        limit=limit + 1,
        offset=offset,
        sort_by=body.get("sort_by"),
        sort_order=body.get("sort_order"),
        values_as_stored=not any(path.startswith("values") for path in paths.values()),
    )
    headers = await page_headers(found, limit=limit, offset=offset, count=lambda: repository.count(**wanted))
    rows = [_found(thread, body.get("select"), paths) for thread in found[:limit]]
    return json_answer(rows, headers={**headers, **body.headers()})


async def count(request: Request) -> Response:
    """Count threads."""
    body = await read_body(request, COUNT)
    found = await served(request).persistence.threads.count(
        metadata=body.get("metadata"), values=body.get("values"), status=body.get("status")
    )
    return json_answer(found, headers=body.headers())


def _found(thread: Thread, select: list[str] | None, paths: dict[str, str]) -> JsonObject:
    row = thread_json(thread)
    shown = selected(row, select)
    return {**shown, "extracted": extracted(row, paths)} if paths else shown


def _extract_paths(body: Body) -> dict[str, str]:
    paths: dict[str, str] = body.get("extract", {})
    for alias, path in paths.items():
        if not ALIAS.fullmatch(alias):
            raise InvalidRequest(f"Invalid extract key '{alias[:200]}': must be letters, digits and underscores")
        if path.partition(".")[0].partition("[")[0] not in EXTRACT_ROOTS:
            raise InvalidRequest(f"Invalid extract path '{path[:200]}': must start with {', '.join(EXTRACT_ROOTS)}")
    return paths


_TAG = "Threads"
_ONE = "/threads/{thread_id}"
_BOTH = (404, 422)

ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads",
        create,
        "Create a thread",
        _TAG,
        body="ThreadCreate",
        answer="Thread",
        errors=(201, 400, 409, 422),
    ),
    Endpoint(
        "POST",
        "/threads/search",
        search,
        "Search threads",
        _TAG,
        body="ThreadSearchRequest",
        answer="Thread",
        answers_list=True,
    ),
    Endpoint("POST", "/threads/count", count, "Count threads", _TAG, body="ThreadCountRequest", answer="Count"),
    Endpoint("GET", _ONE, get, "Get a thread", _TAG, answer="Thread", errors=_BOTH, query=(Query("include", STRING),)),
    Endpoint("PATCH", _ONE, patch, "Change a thread", _TAG, body="ThreadPatch", answer="Thread", errors=(204, *_BOTH)),
    Endpoint("POST", f"{_ONE}/copy", copy, "Copy a thread", _TAG, answer="Thread", errors=(409, 422)),
    Endpoint("DELETE", _ONE, delete, "Delete a thread", _TAG, status=204, errors=_BOTH),
)
