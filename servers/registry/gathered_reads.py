"""Read tools for many callers at once: those that come while a read is under way share the next one."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from toolweave.errors import PersistenceError
from toolweave.tool_config import ToolConfig

Tools = Mapping[str, ToolConfig]
_Waiting = tuple[Sequence[str], asyncio.Future[Tools]]

_CLOSED = "The tool registry cannot be read any more: it is closed."


class GatheredReads:
    """Hundreds of runs that start together would each wait for a connection; here they wait for two reads.

    What a caller gets was read after it asked.
    """

    def __init__(self, read: Callable[[list[str]], Awaitable[Tools]]) -> None:
        self._read = read
        self._closed = False
        self._waiting: list[_Waiting] = []
        self._reading: asyncio.Task[None] | None = None

    async def find(self, tool_ids: Sequence[str]) -> Tools:
        """Return tools by id, among them all of those that there are.

        Raises:
            PersistenceError: they cannot be read, or the registry is closed.
        """
        if self._closed:
            raise PersistenceError(_CLOSED)
        found: asyncio.Future[Tools] = asyncio.get_running_loop().create_future()
        self._waiting.append((tool_ids, found))
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_for_all())
        return await found

    async def close(self) -> None:
        """End a read that is under way, and refuse whoever waits or asks later."""
        self._closed = True
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        # A task that was cancelled before its first step has refused nobody.
        _refuse(self._waiting, _CLOSED)

    async def _read_for_all(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting, []
                await self._read_for(together)
        finally:
            self._reading = None
            _refuse(self._waiting, _CLOSED)

    async def _read_for(self, together: list[_Waiting]) -> None:
        wanted = dict.fromkeys(tool_id for tool_ids, _ in together for tool_id in tool_ids)
        refusal = _CLOSED
        try:
            tools = await self._read(list(wanted))
            for _, found in together:
                # Who was cancelled meanwhile waits no more.
                if not found.done():
                    found.set_result(tools)
        except PersistenceError as error:
            refusal = str(error)
        finally:
            _refuse(together, refusal)


def _refuse(waiting: list[_Waiting], refusal: str) -> None:
    for _, found in waiting:
        if not found.done():
            found.set_exception(PersistenceError(refusal))
