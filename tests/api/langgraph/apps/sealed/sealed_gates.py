"""Where a node waits, by the name of its gate: this module is imported once, the others are loaded by their paths."""

import asyncio
from collections import defaultdict

REACHED: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
OPENED: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
