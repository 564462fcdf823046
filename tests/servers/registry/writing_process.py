"""Register tools from a process of its own: `python -m tests.servers.registry.writing_process url name`.

It says "ready", waits for a line, then registers `shared_<n>` and `<name>_<n>` in turn and prints each id that it got,
until it is stopped or has registered as many as its last argument says.
"""

import asyncio
import sys

from tests.servers.registry.tools import tool
from toolweave.errors import Conflict
from toolweave.servers.registry.repository import open_registry_at
from toolweave.tool_config import ToolConfig


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def main(url: str, name: str, count: int) -> None:
    like = tool("like")
    async with open_registry_at(url) as registry:
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)
        for number in range(count):
            for prefix in ("shared", name):
                config: ToolConfig = like.model_copy(update={"tool_id": f"{prefix}_{number}"})
                try:
                    await registry.create(config)
                except Conflict:
                    continue
                say(config.tool_id)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
