"""Print a graph: `toolweave graph`."""

import asyncio
from typing import Annotated, Literal

import typer
from langchain_core.runnables.graph import Graph
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from toolweave.api.langgraph.app import prepare_imports
from toolweave.api.langgraph.graph_description import without_error_handlers
from toolweave.cli.api_client import did_you_mean
from toolweave.cli.configuration import ConfigOption, read_configuration
from toolweave.cli.terminal import stdout_console
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.errors import ConfigError
from toolweave.runtime.graphs import GraphRegistry, load_graph


def graph(
    name: Annotated[str | None, typer.Argument(help="Graph name; without it, the names are listed.")] = None,
    form: Annotated[Literal["text", "mermaid"], typer.Option("--format", help="How to print it.")] = "text",
    config: ConfigOption = None,
) -> None:
    """Print the nodes and edges of a graph of langgraph.json, as readable text or as mermaid."""
    langgraph_json = read_configuration(config).langgraph_json
    console = stdout_console()
    if name is None:
        for known, entry in langgraph_json.graphs.items():
            console.print(f"{known}  {entry.description or ''}".rstrip())
        return
    if name not in langgraph_json.graphs:
        raise ConfigError(
            f"there is no graph {name!r}.",
            source=str(langgraph_json.path),
            fix=did_you_mean(name, langgraph_json.graphs),
        )
    drawing = without_error_handlers(asyncio.run(_load_drawing(langgraph_json, name)))
    console.print(drawing.draw_mermaid().rstrip() if form == "mermaid" else graph_text(name, drawing))


def graph_text(name: str, drawing: Graph) -> str:
    """Format a graph as a list of its nodes, each with its successors and their conditions."""
    lines = [name]
    for node_id, node in drawing.nodes.items():
        lines.append(f"  {node.name}")
        for edge in drawing.edges:
            if edge.source == node_id:
                condition = f"  when {edge.data}" if edge.conditional and edge.data is not None else ""
                arrow = "⇢" if edge.conditional else "→"
                lines.append(f"    {arrow} {drawing.nodes[edge.target].name}{condition}")
    return "\n".join(lines)


def single_graph_registry(langgraph_json: LangGraphJson, name: str) -> GraphRegistry:
    """Import one graph and return a registry with it alone, on in-memory storage."""
    loaded = {name: load_graph(langgraph_json, name)}
    description = {name: langgraph_json.graphs[name].description}
    return GraphRegistry(loaded, description, checkpointer=InMemorySaver(), store=InMemoryStore())


async def _load_drawing(langgraph_json: LangGraphJson, name: str) -> Graph:
    prepare_imports(langgraph_json)
    async with single_graph_registry(langgraph_json, name).open(name, access="assistants.read") as opened:
        return await opened.aget_graph()
