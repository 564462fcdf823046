"""Endpoints that show what an assistant's graph looks like."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import cast

from langchain_core.runnables import RunnableConfig
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.endpoint import Endpoint, Query
from toolweave.api.langgraph.graph_description import drawn_graph, graph_schemas, subgraph_schemas
from toolweave.api.langgraph.json_schema import BOOLEAN
from toolweave.api.langgraph.requests import path_uuid, query_flag
from toolweave.api.langgraph.served import Served, served
from toolweave.errors import InvalidRequest, NotFound
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import Assistant


async def graph(request: Request) -> Response:
    """Draw the assistant's graph; a graph's name is accepted too."""
    xray = _xray(request.query_params.get("xray"))
    here = served(request)
    try:
        assistant = await here.assistant(request.path_params["assistant_id"])
    except InvalidRequest:
        raise NotFound("Not Found") from None
    async with opened_for(here, assistant) as opened:
        return json_answer(await drawn_graph(opened, xray=xray))


async def schemas(request: Request) -> Response:
    """Give the JSON Schemas of what the assistant's graph takes, gives and keeps."""
    here = served(request)
    assistant = await here.persistence.assistants.get(path_uuid(request, "assistant"))
    async with opened_for(here, assistant) as opened:
        # Making schemas takes pydantic a tenth of a second, which the event loop does not have.
        made = await asyncio.to_thread(graph_schemas, opened)
    return json_answer({"graph_id": assistant.graph_id, **made})


async def subgraphs(request: Request) -> Response:
    """Give the schemas of the graph's subgraphs, all or the one at a namespace."""
    here = served(request)
    assistant = await here.persistence.assistants.get(path_uuid(request, "assistant"))
    namespace = request.path_params.get("namespace")
    recurse = query_flag(request, "recurse")
    async with opened_for(here, assistant) as opened:
        made = await asyncio.to_thread(subgraph_schemas, opened, namespace=namespace, recurse=recurse)
    return json_answer(made)


def opened_for(here: Served, assistant: Assistant) -> AbstractAsyncContextManager[Graph]:
    """Open the graph as the assistant configures it: a factory may make another one for each."""
    config = cast("RunnableConfig", {"configurable": {}, **assistant.config})
    return here.graphs.open(assistant.graph_id, config, access="assistants.read")


def _xray(text: str | None) -> bool | int:
    if text is None or text.lower() == "false":
        return False
    if text.lower() == "true":
        return True
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) == 0:
        raise InvalidRequest("Invalid xray value")
    return int(text)


_RECURSE = (Query("recurse", BOOLEAN),)
_XRAY = (Query("xray", {"anyOf": [{"type": "boolean"}, {"type": "integer", "minimum": 1}]}),)
_BOTH = (404, 422)
_ONE = "/assistants/{assistant_id}"
_TAG = "Assistants"

ENDPOINTS = (
    Endpoint("GET", f"{_ONE}/graph", graph, "Draw a graph", _TAG, answer="Graph", errors=_BOTH, query=_XRAY),
    Endpoint("GET", f"{_ONE}/schemas", schemas, "Get a graph's schemas", _TAG, answer="GraphSchema", errors=_BOTH),
    Endpoint(
        "GET",
        f"{_ONE}/subgraphs",
        subgraphs,
        "Get the schemas of subgraphs",
        _TAG,
        answer="Subgraphs",
        errors=_BOTH,
        query=_RECURSE,
    ),
    Endpoint(
        "GET",
        f"{_ONE}/subgraphs/{{namespace}}",
        subgraphs,
        "Get the schemas of one subgraph",
        _TAG,
        answer="Subgraphs",
        errors=_BOTH,
        query=_RECURSE,
    ),
)
