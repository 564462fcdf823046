"""Offer registered HTTP tools to graphs beside other tools, where a run's `configurable` has `tool_ids`."""

from collections.abc import Sequence

from langchain_core.tools import BaseTool
from loguru import logger

from toolweave.errors import ConfigError, UnknownTools
from toolweave.nodes.http_tools.api_calls import ApiCalls
from toolweave.nodes.http_tools.api_tool import ApiTool, http_tools
from toolweave.nodes.http_tools.registry import ToolRegistry
from toolweave.nodes.run_configurable import run_configurable
from toolweave.nodes.tool_catalog import ToolCatalog, absent_tools
from toolweave.tool_config import ToolConfig

TOOL_IDS = "tool_ids"
MOST_IDS = 1_000
MOST_MADE = 5_000


class WithRegisteredTools:
    """The tools of another catalogue, then those registered under the ids that the run, or its assistant, asks for.

    They are looked up at every turn, so a change of one holds from the next turn on.
    """

    def __init__(self, catalog: ToolCatalog, registry: ToolRegistry, calls: ApiCalls) -> None:
        self._catalog = catalog
        self._registry = registry
        self._calls = calls
        self._made: dict[str, ApiTool] = {}
        self._left_out: set[str] = set()

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools that can be called now.

        Raises:
            ConfigError: `tool_ids` is not a list of ids.
            UnknownTools: nothing is registered under some of the ids.
            PersistenceError: the registry cannot be read now.
        """
        others = await self._catalog.tools()
        wanted = wanted_ids()
        if not wanted:
            return others
        found = await self._registry.find(wanted)
        if unknown := tuple(tool_id for tool_id in wanted if tool_id not in found):
            raise UnknownTools(unknown)
        taken = {tool.name for tool in others}
        self._warn(taken.intersection(wanted))
        return [*others, *(self._tool(found[tool_id]) for tool_id in wanted if tool_id not in taken)]

    async def absent(self) -> Sequence[BaseTool]:
        """Return the other catalogue's tools whose servers are gone for the moment."""
        return await absent_tools(self._catalog)

    def _tool(self, config: ToolConfig) -> ApiTool:
        """Make a tool; the same one as before if its configuration is, because lists of tools are indexed once."""
        made = self._made.get(config.tool_id)
        if made is None or made.operation != config:
            if len(self._made) >= MOST_MADE:
                self._made.clear()
            (made,) = http_tools([config], self._calls)
            self._made[config.tool_id] = made
        return made

    def _warn(self, names: set[str]) -> None:
        for name in sorted(names - self._left_out):
            logger.warning("the registered tool {} is left out: a server's tool has that name", name)
        self._left_out |= names


def wanted_ids() -> tuple[str, ...]:
    """Return the ids that the run whose node asks has in its `configurable`; none outside of graphs.

    Raises:
        ConfigError: it is not a list of ids.
    """
    wanted = run_configurable().get(TOOL_IDS) or ()
    listed = isinstance(wanted, list | tuple) and all(isinstance(tool_id, str) for tool_id in wanted)
    if not listed or len(wanted) > MOST_IDS:
        raise ConfigError(f"{TOOL_IDS} in the run's configurable must be a list of at most {MOST_IDS} tool ids.")
    return tuple(dict.fromkeys(wanted))
