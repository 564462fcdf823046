"""Give whoever works on with a tool's result the whole of it, while the model is shown no more than it can take (D-7).

The whole is in the message's artifact, which goes through checkpoints and to no model. So it is there after a crash,
and deleted with its thread.
"""

from typing import TYPE_CHECKING, Any

from toolweave.servers.connections.contents import Block, is_longer, message_parts

if TYPE_CHECKING:
    from mcp.types import CallToolResult

WHOLE = "whole_result"
"""Where the artifact has what the content lacks: `text`, and `structured_content` if there is some."""

IS_KEPT = "The whole is kept for what follows: do not ask for it again."


async def whole_parts(
    result: "CallToolResult", limit: int, most: int
) -> tuple[str | list[str | Block], dict[str, Any] | None]:
    """Return a message's content, text beyond `limit` characters cut, and its artifact with the first `most` of it."""
    kept: dict[str, Any] = {}

    async def told(text: str, _shown: int) -> str:
        kept["text"] = text[:most]
        return IS_KEPT

    content, artifact = await message_parts(result, limit, told)
    structured = result.structuredContent
    if structured is not None and is_longer(structured, limit) and not is_longer(structured, most):
        kept["structured_content"] = structured
    return (content, {WHOLE: kept}) if kept else (content, artifact)
