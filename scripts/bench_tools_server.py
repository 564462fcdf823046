"""The MCP server that scripts/bench_tools.py and scripts/soak.py call: an echo, a wait, and a page of text."""

import asyncio
import sys

from fastmcp import FastMCP

mcp = FastMCP("bench")


@mcp.tool(annotations={"readOnlyHint": True})
def echo(text: str) -> str:
    """Return the text."""
    return text


@mcp.tool(annotations={"readOnlyHint": True})
async def wait(seconds: float) -> str:
    """Wait, then say so."""
    await asyncio.sleep(seconds)
    return "waited"


@mcp.tool
def page(characters: int) -> str:
    """Return a text of that length."""
    return "x" * characters


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1].isdigit():
        mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")
    else:
        mcp.run(show_banner=False, log_level="ERROR")
