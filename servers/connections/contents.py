"""Turn what an MCP tool answers into what a LangChain ToolMessage holds.

A result of text alone becomes a plain string: models, and clients of `/chat/stream`, read it as it is, and equal
results stay equal. What nobody sees but a model obeys is taken out of the text (`visible`); the artifact's structured
content is for programs and stays as it is. Images and files become content blocks beside the text. What models take
nowhere becomes a notice: audio, files of unknown types, and links to resources, which only their server can read. As
blocks they would fail every later turn of the thread, or have a model's endpoint fetch whatever address a server names.
Blocks are told apart by their `type`, so that this module needs no MCP library.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from toolweave.visible import visible_parts

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Block = dict[str, Any]
Keep = Callable[[str, int], Awaitable[str | None]]
"""Keep a whole text of which only so many characters are shown; return how to read on, None if it cannot be kept."""

KEPT = "kept_result"
MOST_MEDIA = 20
MOST_MEDIA_CHARS = 8_000_000
LONGEST_URL = 4_000
LONGEST_LINK_NAME = 200
PDF = "application/pdf"
ASK_FOR_LESS = "Ask for less at once, for example with a filter, a smaller limit or the next page."


async def message_parts(
    result: "CallToolResult", limit: int, keep: Keep | None = None
) -> tuple[str | list[str | Block], Block | None]:
    """Return what a ToolMessage holds of a result: its content and its artifact.

    The content is a string if it is all text, else text and media blocks in the server's order. Text beyond `limit`
    characters is cut with a notice (T-12). The artifact is the structured content under the key the MCP adapter uses;
    one that is longer than `limit` is left out.
    """
    blocks = [await _shown(block) for block in _blocks(result)]
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    artifact = _structured(result, limit)
    if len(text) > limit:
        how = await keep(text, limit) if keep else None
        artifact = {KEPT: {"characters": len(text)}} if how else None
        notice = f"[The answer was cut: {limit} of its {len(text)} characters are shown. {how or ASK_FOR_LESS}]"
        blocks = [*_cut(blocks, limit), _text(f"\n{notice}")]
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks), artifact
    return list(blocks), artifact


def message_text(result: "CallToolResult") -> str:
    """Return the text of a result as its server wrote it; media are left out."""
    return "\n".join(block["text"] for block in _blocks(result) if block["type"] == "text")


def _blocks(result: "CallToolResult") -> list[Block]:
    if not result.content and result.structuredContent is not None:
        return [_text(json.dumps(result.structuredContent, ensure_ascii=False))]
    blocks, media, left = [], 0, MOST_MEDIA_CHARS
    for block in map(_block, result.content):
        if block["type"] != "text":
            media += 1
            size = len(block.get("base64", ""))
            if media > MOST_MEDIA or size > left:
                blocks.append(_text(f"[{block['type']}, {size * 3 // 4} bytes, too much to show]"))
                continue
            left -= size
        blocks.append(block)
    return blocks


async def _shown(block: Block) -> Block:
    """Clean a block's text, letting others work between the parts of a long one."""
    if block["type"] != "text":
        return block
    parts = []
    for part in visible_parts(block["text"]):
        parts.append(part)
        if len(block["text"]) > len(part):
            await asyncio.sleep(0)
    return _text("".join(parts))


def _cut(blocks: list[Block], limit: int) -> list[Block]:
    """Keep media and the first `limit` characters of text; what joins texts counts."""
    kept = []
    for block in blocks:
        if block["type"] != "text":
            kept.append(block)
        elif limit > 0:
            kept.append(_text(block["text"][:limit]))
            limit -= len(block["text"]) + 1
    return kept


def _structured(result: "CallToolResult", limit: int) -> Block | None:
    content = result.structuredContent
    return None if content is None or is_longer(content, limit) else {"structured_content": content}


def is_longer(value: Any, limit: int) -> bool:
    """Say whether a value's JSON would have more than about `limit` characters, without writing it."""
    waiting = [value]
    while waiting and limit >= 0:
        part = waiting.pop()
        limit -= 2 + (len(part) if isinstance(part, str | list | Mapping) else 2)
        if isinstance(part, Mapping):
            waiting.extend(part.keys())
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return limit < 0


def _block(content: Any) -> Block:
    match content.type:
        case "text":
            return _text(content.text)
        case "image":
            return {"type": "image", "base64": content.data, "mime_type": _kind(content.mimeType)}
        case "audio":
            return _text(f"[audio of type {_kind(content.mimeType)}, {len(content.data) * 3 // 4} bytes, not shown]")
        case "resource_link":
            named = f"{content.name[:LONGEST_LINK_NAME]}, {str(content.uri)[:LONGEST_URL]}"
            return _text(f"[resource {named}{_of_kind(content.mimeType)}, not shown]")
        case "resource" if hasattr(content.resource, "text"):
            return _text(content.resource.text)
        case "resource":
            return _file(content.resource.mimeType, content.resource.blob)
        case other:
            return _text(f"[content of type {_kind(other)}, not shown]")


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _file(mime_type: str | None, data: str) -> Block:
    kind = (mime_type or "").lower()
    if kind.startswith("image/"):
        return {"type": "image", "base64": data, "mime_type": _kind(kind)}
    if kind == PDF:
        return {"type": "file", "base64": data, "mime_type": PDF, "filename": "file.pdf"}
    return _text(f"[file{_of_kind(mime_type)}, {len(data) * 3 // 4} bytes, not shown]")


def _of_kind(mime_type: str | None) -> str:
    return f" of type {_kind(mime_type)}" if mime_type else ""


def _kind(name: str) -> str:
    return name[:100]
