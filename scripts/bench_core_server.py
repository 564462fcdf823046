"""The MCP server that scripts/bench_core.py compares with: it reads a file, and that is all."""

import sys
from pathlib import Path

from fastmcp import FastMCP

mcp = FastMCP("bare")


@mcp.tool
def read_file(path: str) -> str:
    """Return a file's text."""
    return Path(path).read_text(encoding="utf-8")


if __name__ == "__main__":
    mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="ERROR")
