"""Find the tools that a workflow may choose from, and begin its state anew (W-03, W-04)."""

import asyncio
from collections.abc import Sequence

from toolweave.nodes.tool_catalog import ToolRegistry, registered
from toolweave.nodes.tool_selection import ToolIndex
from toolweave.nodes.workflow.descriptions import as_candidates
from toolweave.nodes.workflow.state import (
    CheckedInput,
    WantedFormat,
    WorkflowNode,
    WorkflowState,
    WorkflowUpdate,
    begun,
)
from toolweave.tool_config import ToolConfig


def retrieve_node(registry: ToolRegistry, max_tools: int) -> WorkflowNode:
    """Make the node that looks the ids up; of more than `max_tools` tools it keeps those that fit the instructions."""

    async def retrieve(state: WorkflowState) -> WorkflowUpdate:
        """Write the candidates.

        Raises:
            StageFailed: the input is not what a workflow takes.
            UnknownTools: nothing is registered under some ids; names all of them.
            PersistenceError: the registry cannot be read now.
        """
        wanted = CheckedInput.of(state)
        found = await registered(registry, tuple(dict.fromkeys(wanted.tool_ids)))
        tools = list(found.values())
        if len(tools) > max_tools:
            tools = await asyncio.to_thread(relevant, tools, wanted.user_instructions, max_tools)
        candidates = await asyncio.to_thread(as_candidates, tools)
        formatting = WantedFormat(instructions=wanted.response_format_instructions) if wanted.format_response else None
        return {**begun(), "candidates": candidates, "wanted_format": formatting}

    return retrieve


def relevant(tools: Sequence[ToolConfig], instructions: str, most: int) -> list[ToolConfig]:
    """Keep the `most` tools whose words fit best, then the first ones, in the order in which they were given."""
    ranked = ToolIndex(tools).ranked([(instructions, 1.0)])
    chosen = list(dict.fromkeys([*ranked, *range(len(tools))]))[:most]
    return [tools[place] for place in sorted(chosen)]
