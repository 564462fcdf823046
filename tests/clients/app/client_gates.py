"""Let a client's test hold a run, or a model in the middle of a sentence, until it says so over HTTP."""

import asyncio
from collections import defaultdict


class Gate:
    """A place where a run stops until the test opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


GATES: defaultdict[str, Gate] = defaultdict(Gate)


async def pass_gate(name: str) -> None:
    """Say that the run is here, and wait until the gate is opened."""
    GATES[name].reached.set()
    await GATES[name].opened.wait()
