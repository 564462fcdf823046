"""An MCP server of your own with FastMCP: one tool that reads, one that writes."""

from typing import Annotated

from fastmcp import FastMCP
from mcp.types import ToolAnnotations
from pydantic import Field

STOCK = {"chess set": 3, "puzzle": 0}
server = FastMCP("shop", instructions="The stock of a small shop.")


@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def get_stock(article: Annotated[str, Field(description="Name of the article", examples=["chess set"])]) -> str:
    """Get how many of an article are in stock."""
    return f"{STOCK.get(article, 0)} × {article}"


@server.tool
def order_article(article: str, amount: Annotated[int, Field(ge=1, le=100)] = 1) -> str:
    """Order an article from the supplier."""
    STOCK[article] = STOCK.get(article, 0) + amount
    return f"Ordered {amount} × {article}; in stock: {STOCK[article]}"


if __name__ == "__main__":
    server.run(show_banner=False)
