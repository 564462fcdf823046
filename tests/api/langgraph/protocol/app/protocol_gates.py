"""Let tests hold a run inside a node: over HTTP they learn that it is there, and let it go on."""

import asyncio
from collections import defaultdict


class Gate:
    """A place where a run stops until the test opens it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()


GATES: defaultdict[str, Gate] = defaultdict(Gate)
