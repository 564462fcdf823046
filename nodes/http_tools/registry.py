"""Define how graphs see registered tools: by their ids."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolweave.tool_config import ToolConfig


class ToolRegistry(Protocol):
    """Something that keeps ToolConfigs; the database is one."""

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        """Return those of the tools that there are, by id.

        Raises:
            PersistenceError: the registry cannot be read now.
        """
        ...


@dataclass(frozen=True)
class FixedToolConfigs:
    """A registry whose tools never change."""

    configs: tuple[ToolConfig, ...]

    async def find(self, tool_ids: Sequence[str]) -> Mapping[str, ToolConfig]:
        """Return those of the tools that there are, by id."""
        return {config.tool_id: config for config in self.configs if config.tool_id in tool_ids}


def as_registry(tools: Sequence[ToolConfig] | ToolRegistry) -> ToolRegistry:
    """Wrap a plain sequence of configurations; return a registry as it is."""
    return FixedToolConfigs(tuple(tools)) if isinstance(tools, Sequence) else tools
