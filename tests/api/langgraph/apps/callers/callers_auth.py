"""Everybody may say who they are; those whose name begins with t have a token for the MCP server."""

from typing import Any

from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> dict[str, Any]:
    name = (authorization or "").removeprefix("Bearer ")
    if not name:
        raise Auth.exceptions.HTTPException(401, "Say who you are.")
    tokens = {"mcp_token": f"mcp-token-of-{name}"} if name.startswith("t") else {}
    return {"identity": name, **tokens}
