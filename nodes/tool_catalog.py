"""Define how graphs see tools: a catalogue that is asked once per model turn, so recovered servers' tools appear."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from langchain_core.tools import BaseTool

from toolweave.errors import ConfigError


class ToolCatalog(Protocol):
    """Something that knows which tools can be called now; the tool plane is one."""

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools that can be called now, in registry order (D-2)."""
        ...


@runtime_checkable
class RemembersTools(Protocol):
    """A catalogue that still knows the tools of servers that are gone for the moment."""

    async def absent(self) -> Sequence[BaseTool]:
        """Return them; a call of one waits for its server to come back, or says that it is down (D-5)."""
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

    async def absent(self) -> Sequence[BaseTool]:
        """Return the wanted tools whose servers are gone for the moment."""
        return self.among(await absent_tools(self.catalog))

    def among(self, tools: Sequence[BaseTool]) -> Sequence[BaseTool]:
        """Pick the wanted ones out of `tools`."""
        suffixes = tuple(f"_{name}" for name in self.wanted)
        return [tool for tool in tools if tool.name in self.wanted or tool.name.endswith(suffixes)]


def as_catalog(tools: Sequence[BaseTool] | ToolCatalog) -> ToolCatalog:
    """Wrap a plain sequence of tools; return a catalogue as it is."""
    return FixedTools(tuple(tools)) if isinstance(tools, Sequence) else tools


async def absent_tools(catalog: ToolCatalog) -> Sequence[BaseTool]:
    """Return the tools that a catalogue knows and does not offer now; none for one that forgets them."""
    return await catalog.absent() if isinstance(catalog, RemembersTools) else ()
