"""Give served graphs the tools of the process's tool plane, found anew at every turn."""

from collections.abc import Sequence

from langchain_core.tools import BaseTool
from toolweave.servers.connections.current import current_plane


class PlaneTools:
    """The catalogue of whichever plane is published; waits for one that is still opening."""

    async def tools(self) -> Sequence[BaseTool]:
        """Return the tools of all servers that can be called now (A-07)."""
        plane = await current_plane()
        return await plane.tools()
