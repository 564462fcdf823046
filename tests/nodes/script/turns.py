"""Count how often the event loop comes round while something else works."""

import asyncio


class Turns:
    """Counts how often the loop comes round."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._turn())

    async def __aexit__(self, *raised: object) -> None:
        self._task.cancel()

    async def _turn(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1
