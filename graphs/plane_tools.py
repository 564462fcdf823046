"""Offer a tool plane's tools to graphs: waited for once, then as they are at each turn."""

from collections.abc import Sequence

from langchain_core.tools import BaseTool

from toolweave.nodes.run_configurable import run_configurable
from toolweave.servers.connections.current import current_plane
from toolweave.servers.connections.plane import ToolPlane


class PlaneTools:
    """The catalogue of one plane.

    The first question waits, at most two seconds, for servers that connect for the first time. Later ones take what
    is ready: a server that hangs must not slow down every turn of every run.
    """

    def __init__(self, plane: ToolPlane) -> None:
        self.plane = plane
        self._settled = False

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools of all servers that can be called now (A-07)."""
        if not self._settled:
            await self.plane.settle()
            self._settled = True
        return await self.plane.tools(self.plane.ready(), run_configurable())

    async def absent(self) -> Sequence[BaseTool]:
        """Return the tools of servers that were lost and are being connected again (D-5)."""
        return self.plane.absent_tools()


class CurrentPlaneTools:
    """The catalogue of whichever plane the process has now; waits for one that is still opening."""

    def __init__(self) -> None:
        self._of: PlaneTools | None = None

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools of all servers that can be called now (A-07).

        Raises:
            ServerUnavailable: the plane did not open in time.
        """
        return await (await self._current()).tools()

    async def absent(self) -> Sequence[BaseTool]:
        """Return the tools of servers that were lost and are being connected again (D-5).

        Raises:
            ServerUnavailable: the plane did not open in time.
        """
        return await (await self._current()).absent()

    async def _current(self) -> PlaneTools:
        plane = await current_plane()
        if self._of is None or self._of.plane is not plane:
            self._of = PlaneTools(plane)
        return self._of
