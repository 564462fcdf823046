"""Limit how many runs execute at a time; the most urgent waiting run gets the next free slot (S-08)."""

import asyncio
from heapq import heappop, heappush
from itertools import count


class RunSlots:
    """The slots for executing runs of one event loop."""

    def __init__(self, slots: int) -> None:
        # With a free slot no run waits.
        self._free = slots
        self._arrivals = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    def hold(self, urgency: int) -> "HeldSlot":
        """Return a context manager that holds a slot; a smaller `urgency` gets one first, then the earlier arrival."""
        return HeldSlot(self, urgency)

    async def acquire(self, urgency: int) -> None:
        """Wait for a slot."""
        if self._free:
            self._free -= 1
            return
        slot_given = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (urgency, next(self._arrivals), slot_given))
        try:
            await slot_given
        except asyncio.CancelledError:
            if not slot_given.cancelled():
                # The slot was given in the same iteration of the event loop.
                self.release()
            raise

    def release(self) -> None:
        """Give a slot to the most urgent waiting run."""
        while self._waiting:
            _, _, slot_given = heappop(self._waiting)
            if not slot_given.done():
                slot_given.set_result(None)
                return
        self._free += 1


class HeldSlot:
    """A slot that is held inside an `async with` block."""

    __slots__ = ("_slots", "_urgency")

    def __init__(self, slots: RunSlots, urgency: int) -> None:
        self._slots = slots
        self._urgency = urgency

    async def __aenter__(self) -> None:
        """Wait for the slot."""
        await self._slots.acquire(self._urgency)

    async def __aexit__(self, *_: object) -> None:
        """Release the slot."""
        self._slots.release()
