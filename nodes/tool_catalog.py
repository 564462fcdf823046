"""Define how graphs see tools: a catalogue that is asked once per model turn, so recovered servers' tools appear."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from langchain_core.tools import BaseTool

from toolweave.errors import ConfigError


class ToolCatalog(Protocol):
    """Something that knows which tools can be called now; the tool plane is one."""

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools that can be called now, in registry order (D-2)."""
        ...


@dataclass(frozen=True)
class FixedTools:
    """A catalogue whose tools never change.

    Raises:
        ConfigError: two tools have the same name, so one of them could never be called.
    """

    available: tuple[BaseTool, ...]

    def __post_init__(self) -> None:
        twice = [name for name, count in Counter(tool.name for tool in self.available).items() if count > 1]
        if twice:
            raise ConfigError(f"more than one tool is named {', '.join(twice)}.", fix="Rename or prefix one of them.")

    async def tools(self) -> Sequence[BaseTool]:
        """Return the same tools every time."""
        return self.available


@dataclass(frozen=True)
class SelectedTools:
    """The tools of another catalogue that have one of the wanted names, with or without their server's prefix."""

    catalog: ToolCatalog
    wanted: tuple[str, ...]

    async def tools(self) -> Sequence[BaseTool]:
        """Return the wanted tools that can be called now."""
        return self.among(await self.catalog.tools())

    def among(self, tools: Sequence[BaseTool]) -> Sequence[BaseTool]:
        """Pick the wanted ones out of `tools`."""
        suffixes = tuple(f"_{name}" for name in self.wanted)
        return [tool for tool in tools if tool.name in self.wanted or tool.name.endswith(suffixes)]


def as_catalog(tools: Sequence[BaseTool] | ToolCatalog) -> ToolCatalog:
    """Wrap a plain sequence of tools; return a catalogue as it is."""
    return FixedTools(tuple(tools)) if isinstance(tools, Sequence) else tools
