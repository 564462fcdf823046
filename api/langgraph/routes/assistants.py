"""Endpoints of assistants, their versions, and the structure and schemas of their graphs."""

import asyncio
import re
from contextlib import AbstractAsyncContextManager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer, page_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.endpoints import Endpoints
from toolweave.api.langgraph.graph_description import graph_drawing, graph_schemas, subgraph_schemas
from toolweave.api.langgraph.json_schema import FLAG
from toolweave.api.langgraph.requests import Body, QueryParam, parse_uuid
from toolweave.api.langgraph.run_requests import CONTEXT_CONFLICT
from toolweave.api.langgraph.serialization import assistant_json
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.errors import BadRequest, InvalidRequest, NotFound
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import Assistant, AssistantPatch, Page, mirror_context

UNTITLED = "Untitled"
DELETE_BATCH_SIZE = 100
endpoints = Endpoints("Assistants", "disable_assistants")
_RECURSE = QueryParam("recurse", FLAG)
_XRAY = QueryParam("xray", {"type": ["boolean", "integer"], "minimum": 1, "default": False})
_XRAY_PATTERN = re.compile("true|false|0{0,8}[1-9][0-9]{0,8}")
_DELETE_THREADS = QueryParam("delete_threads", FLAG)


@endpoints("POST /assistants", rules.create_assistant, "AssistantCreate", "Assistant", errors=(400, 404, 409, 422))
async def create_assistant(request: Request, body: Body) -> Response:
    """Create an assistant.

    An existing id is a conflict; with `if_exists` its assistant is returned.
    """
    services = get_services(request)
    given_id = body.get("assistant_id")
    assistant_id = str(uuid4()) if given_id is None else parse_uuid(given_id, "assistant")
    _check_content(services, body)
    config, context = mirror_context(body.get("config", {}), body.get("context", {}))
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
    stored = await services.persistence.assistants.create(assistant, body.get("if_exists", "raise"))
    return json_answer(assistant_json(stored))


@endpoints(
    "POST /assistants/search", rules.search_assistants, "AssistantSearchRequest", "Assistant[]", errors=(404, 422)
)
async def search_assistants(request: Request, body: Body) -> Response:
    """Search assistants.

    Newest first unless the body sorts otherwise.
    """
    filters = _search_filters(get_services(request), body)
    repository = get_services(request).persistence.assistants
    return await page_answer(
        body, partial(repository.search, **filters), partial(repository.count, **filters), assistant_json
    )


@endpoints("POST /assistants/count", rules.search_assistants, "AssistantCountRequest", "Count", errors=(404, 422))
async def count_assistants(request: Request, body: Body) -> Response:
    """Count assistants."""
    services = get_services(request)
    return json_answer(await services.persistence.assistants.count(**_search_filters(services, body)))


@endpoints("GET /assistants/{assistant_id}", rules.read_assistant, answer="Assistant")
async def get_assistant(request: Request, assistant_id: str) -> Response:
    """Get an assistant."""
    assistant = await get_services(request).persistence.assistants.get(assistant_id)
    return json_answer(assistant_json(assistant))


@endpoints(
    "PATCH /assistants/{assistant_id}", rules.update_assistant, "AssistantPatch", "Assistant", errors=(400, 404, 422)
)
async def patch_assistant(request: Request, assistant_id: str, body: Body) -> Response:
    """Change an assistant.

    Return its new version.
    """
    services = get_services(request)
    _check_content(services, body)
    changed = await services.persistence.assistants.patch(assistant_id, AssistantPatch(**body.fields))
    return json_answer(assistant_json(changed))


@endpoints("DELETE /assistants/{assistant_id}", rules.delete_assistant, status=204, query=(_DELETE_THREADS,))
async def delete_assistant(request: Request, assistant_id: str) -> Response:
    """Delete an assistant.

    Delete its crons, too, and with `delete_threads` the threads that it ran on last.
    """
    with_threads = _DELETE_THREADS.read(request)
    services = get_services(request)
    if with_threads:
        await _delete_threads(services, assistant_id)
    await services.persistence.assistants.delete(assistant_id)
    return Response(None, 204)


@endpoints(
    "POST /assistants/{assistant_id}/versions",
    rules.read_assistant,
    "AssistantVersionsSearchRequest",
    "AssistantVersion[]",
)
async def list_versions(request: Request, assistant_id: str, body: Body) -> Response:
    """List an assistant's versions.

    Newest first.
    """
    found = await get_services(request).persistence.assistants.versions(
        assistant_id, metadata=body.get("metadata"), limit=body.get("limit", 10), offset=body.get("offset", 0)
    )
    return json_answer([assistant_json(version) for version in found])


@endpoints("POST /assistants/{assistant_id}/latest", rules.set_version, "AssistantVersionChange", "Assistant")
async def set_latest(request: Request, assistant_id: str, body: Body) -> Response:
    """Choose the active version."""
    active = await get_services(request).persistence.assistants.set_latest(assistant_id, body.get("version"))
    return json_answer(assistant_json(active))


def _check_content(services: ApiServices, body: Body) -> None:
    """Reject an unknown graph, and `context` beside `config.configurable`."""
    configurable = body.get("config", {}).get("configurable")
    if configurable and body.get("context"):
        raise BadRequest(CONTEXT_CONFLICT)
    if "graph_id" in body.fields:
        services.require_graph(body.fields["graph_id"])


def _search_filters(services: ApiServices, body: Body) -> dict[str, Any]:
    """Return the filters of a search; an unknown graph is not found."""
    graph_id = body.get("graph_id")
    if graph_id is not None:
        services.require_graph(graph_id)
    return {"metadata": body.get("metadata"), "graph_id": graph_id, "name": body.get("name")}


async def _delete_threads(services: ApiServices, assistant_id: str) -> None:
    # Delete the assistant last: after a crash in between, the request can be repeated.
    await services.persistence.assistants.get(assistant_id)
    while True:
        found = await services.persistence.threads.search(
            Page(DELETE_BATCH_SIZE), metadata={"assistant_id": assistant_id}
        )
        if not found:
            return
        for thread in found:
            with suppress(NotFound):
                await services.engine.delete_thread(thread.thread_id)


@endpoints("GET /assistants/{assistant_id}/graph", rules.read_assistant, answer="Graph", read=False, query=(_XRAY,))
async def get_graph(request: Request) -> Response:
    """Draw a graph.

    The path may have the name of a graph instead of an id.
    """
    xray = request.query_params.get("xray", "false").lower()
    if not _XRAY_PATTERN.fullmatch(xray):
        raise InvalidRequest("Invalid xray value")
    services = get_services(request)
    try:
        assistant = await services.find_assistant(request.path_params["assistant_id"])
    except InvalidRequest:
        raise NotFound("Not Found") from None
    async with open_graph(services, assistant) as graph:
        return json_answer(await graph_drawing(graph, xray=int(xray) if xray.isdecimal() else xray == "true"))


@endpoints("GET /assistants/{assistant_id}/schemas", rules.read_assistant, answer="GraphSchema")
async def get_schemas(request: Request, assistant_id: str) -> Response:
    """Get a graph's schemas.

    They are JSON Schemas of the graph's input, output, state and context.
    """
    services = get_services(request)
    assistant = await services.persistence.assistants.get(assistant_id)
    async with open_graph(services, assistant) as graph:
        # pydantic needs a tenth of a second for schemas, too long for the event loop.
        result = await asyncio.to_thread(graph_schemas, graph)
    return json_answer({"graph_id": assistant.graph_id, **result})


@endpoints(
    "GET /assistants/{assistant_id}/subgraphs/{namespace}",
    rules.read_assistant,
    answer="Subgraphs",
    query=(_RECURSE,),
    summary="Get the schemas of one subgraph",
)
@endpoints("GET /assistants/{assistant_id}/subgraphs", rules.read_assistant, answer="Subgraphs", query=(_RECURSE,))
async def get_subgraphs(request: Request, assistant_id: str) -> Response:
    """Get the schemas of subgraphs.

    All, or the one at a namespace.
    """
    services = get_services(request)
    assistant = await services.persistence.assistants.get(assistant_id)
    namespace = request.path_params.get("namespace")
    recurse = _RECURSE.read(request)
    async with open_graph(services, assistant) as graph:
        result = await asyncio.to_thread(subgraph_schemas, graph, namespace=namespace, recurse=recurse)
    return json_answer(result)


def open_graph(services: ApiServices, assistant: Assistant) -> AbstractAsyncContextManager[Graph]:
    """Open the graph with the assistant's config, which a graph factory may use."""
    config = cast("RunnableConfig", {"configurable": {}, **assistant.config})
    return services.graphs.open(assistant.graph_id, config, access="assistants.read")
