"""Turn what an MCP tool answers into what a LangChain ToolMessage holds.

A result of text alone becomes a plain string: models, and clients of `/chat/stream`, read it as it is, and equal
results stay equal. Images and files become content blocks beside the text; audio, which no chat model takes in a tool
message, becomes a notice. Blocks are told apart by their `type`, so that this module needs no MCP library.
"""

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Block = dict[str, Any]


def message_content(result: "CallToolResult") -> str | list[str | Block]:
    """Return a result's content: a string if it is all text, else text and media blocks in the server's order."""
    blocks = [_block(content) for content in result.content]
    if not blocks and result.structuredContent is not None:
        return json.dumps(result.structuredContent, ensure_ascii=False)
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return list(blocks)


def message_text(result: "CallToolResult") -> str:
    """Return the text of a result; media are left out."""
    return "\n".join(block["text"] for block in map(_block, result.content) if block["type"] == "text")


def artifact(result: "CallToolResult") -> Block | None:
    """Return the structured content under the key the MCP adapter uses, for code that reads it from the message."""
    return None if result.structuredContent is None else {"structured_content": result.structuredContent}


def _block(content: Any) -> Block:
    match content.type:
        case "text":
            return _text(content.text)
        case "image":
            return {"type": "image", "base64": content.data, "mime_type": content.mimeType}
        case "audio":
            return _text(f"[audio of type {content.mimeType}, {len(content.data) * 3 // 4} bytes, not shown]")
        case "resource_link":
            return _file(content.mimeType, url=str(content.uri))
        case "resource" if hasattr(content.resource, "text"):
            return _text(content.resource.text)
        case "resource":
            return _file(content.resource.mimeType, base64=content.resource.blob)
        case other:
            return _text(f"[content of type {other}, not shown]")


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _file(mime_type: str | None, **where: str) -> Block:
    kind = "image" if (mime_type or "").startswith("image/") else "file"
    return {"type": kind, **where} | ({"mime_type": mime_type} if mime_type else {})
