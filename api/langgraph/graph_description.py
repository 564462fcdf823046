"""The drawing of a graph, and the JSON Schemas of its input, output, state and context."""

import asyncio
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakKeyDictionary

from langchain_core.runnables.graph import Graph as Drawing
from langgraph.channels.base import BaseChannel
from langgraph.pregel import Pregel
from loguru import logger
from pydantic import BaseModel, create_model
from pydantic.errors import PydanticUserError

from toolweave.api.langgraph.services import ApiServices
from toolweave.runtime.graphs import Graph
from toolweave.runtime.models import JsonObject

# LangGraph draws the error handlers of one node and of all nodes as nodes without incoming edges.
_ERROR_HANDLERS = ("__error_handler__", "__default_error_handler__")
# pydantic needs up to a tenth of a second for a graph. A factory's graphs are other ones for each request.
_schemas: WeakKeyDictionary[Graph, JsonObject] = WeakKeyDictionary()


async def graph_drawing(graph: Graph, *, xray: bool | int) -> JsonObject:
    """Return nodes and edges without Python class names; `xray` expands subgraphs, an integer to that depth."""
    drawing: JsonObject = without_error_handlers(await graph.aget_graph(xray=xray)).to_json()
    for node in drawing["nodes"]:
        data = node.get("data")
        if isinstance(data, dict):
            data.pop("id", None)
    return drawing


def without_error_handlers(drawing: Drawing) -> Drawing:
    """Return a drawing without error handlers; the nodes they belong to have edges to the same targets."""
    nodes = {key: node for key, node in drawing.nodes.items() if not any(name in node.name for name in _ERROR_HANDLERS)}
    return Drawing(nodes, [edge for edge in drawing.edges if edge.source in nodes and edge.target in nodes])


def graph_schemas(graph: Graph) -> JsonObject:
    """Return a graph's JSON Schemas, null for types that have none; they are made once for each graph."""
    if (made := _schemas.get(graph)) is None:
        context = _schema_or_none(graph, "context", graph.get_context_jsonschema)
        made = _schemas[graph] = {
            "input_schema": _schema_or_none(graph, "input", graph.get_input_jsonschema),
            "output_schema": _schema_or_none(graph, "output", graph.get_output_jsonschema),
            "state_schema": _schema_or_none(graph, "state", lambda: _state_schema(graph)),
            "config_schema": context or {},
            "context_schema": context,
        }
    return made


async def input_schema(services: ApiServices, graph_id: str) -> JsonObject | None:
    """Return the JSON Schema of a graph's input, None if its type has none."""
    async with services.graphs.open(graph_id, access="assistants.read") as graph:
        # On a thread: pydantic takes too long for the event loop.
        return cast("JsonObject | None", (await asyncio.to_thread(graph_schemas, graph))["input_schema"])


def subgraph_schemas(graph: Graph, *, namespace: str | None, recurse: bool) -> JsonObject:
    """Return the schemas of subgraphs by namespace; none for an unknown namespace."""
    found = graph.get_subgraphs(namespace=namespace, recurse=recurse or (namespace is not None and "|" in namespace))
    return {name: graph_schemas(subgraph) for name, subgraph in found if isinstance(subgraph, Pregel)}


def _state_schema(graph: Graph) -> JsonObject:
    channels = ((name, graph.channels[name]) for name in graph.stream_channels_list)
    fields: dict[str, Any] = {
        name: (channel.ValueType, None) for name, channel in channels if isinstance(channel, BaseChannel)
    }
    model: type[BaseModel] = create_model(graph.get_name("State"), **fields)
    return model.model_json_schema()


def _schema_or_none(graph: Graph, kind: str, make: Callable[[], JsonObject | None]) -> JsonObject | None:
    try:
        return make()
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        logger.warning("graph {} has no {} schema: {}", graph.name, kind, str(error).partition("\n")[0])
        return None
