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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolweave.errors import (
    CallRefused,
    InvalidArguments,
    RequestDeclined,
    RetriesExhausted,
    ServerUnavailable,
    ToolProtocolError,
    ToolTimeout,
)
from toolweave.visible import visible, visible_parts

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


SHOWN_NAME = 128


def unavailable(server: str, tool: str | None = None) -> ServerUnavailable:
    """Build the error for a server that cannot be reached."""
    return ServerUnavailable(
        f"The tool server {server!r} is not available right now. Please try again later.",
        server=server,
        tool=tool,
        executed="no",
    )


def refused(server: str, tool: str) -> CallRefused:
    """Build the error for a call that is not even tried: its server is known to be down, or keeps failing."""
    return CallRefused(
        f"The tool server {server!r} is temporarily unavailable. Please try again in a few seconds.",
        server=server,
        tool=tool,
        executed="no",
    )


def exhausted(server: str, tool: str, attempts: int) -> RetriesExhausted:
    """Build the error for a call none of whose attempts was answered."""
    return RetriesExhausted(
        f"The tool server {server!r} did not answer: the call was tried {attempts} times. Please try again later.",
        server=server,
        tool=tool,
    )


def closing(server: str, tool: str | None) -> CallRefused:
    """Build the error for a call that the end of this process, or of its connections, cuts short."""
    return CallRefused(
        f"The tool server {server!r} is not available any more: the connection to it is being closed.",
        server=server,
        tool=tool,
        executed="no",
    )


def unusable(server: str, tool: str | None, reason: str) -> CallRefused:
    """Build the error for a server that will not come up by itself: unknown, disabled or misconfigured."""
    return CallRefused(f"The tool server {server!r} cannot be used: {reason}", server=server, tool=tool, executed="no")


def left_out(server: str, tool: str) -> CallRefused:
    """Build the error for a tool that the operator's filters leave out."""
    return CallRefused(
        f"The tool server {server!r} offers no tool of the name {tool[:SHOWN_NAME]!r} here. Use another one.",
        server=server,
        tool=tool,
        executed="no",
    )


def lost(server: str, tool: str | None = None) -> ServerUnavailable:
    """Build the error for a connection that broke after the request may have left."""
    return ServerUnavailable(
        f"The connection to the tool server {server!r} broke before it answered; "
        "the request may or may not have been carried out. Please check, then try again.",
        server=server,
        tool=tool,
    )


def never_sent(server: str, tool: str, limit_s: float) -> ToolTimeout:
    """Build the error for a call whose deadline passed before there was a connection or a free slot for it."""
    return ToolTimeout(
        f"The tool server {server!r} was not ready for the call within {limit_s:g} seconds. "
        "Please try again in a few seconds.",
        server=server,
        tool=tool,
        executed="no",
    )


def unsent(server: str, tool: str, problem: str) -> InvalidArguments:
    """Build the error for arguments that cannot be written as JSON."""
    return InvalidArguments(
        f"The call was not sent: {problem}. Please correct the arguments.", server=server, tool=tool, executed="no"
    )


def too_slow(server: str, tool: str, limit_s: float) -> ToolTimeout:
    """Build the error for a call whose deadline passed."""
    return ToolTimeout(
        f"The tool {tool!r} took longer than {limit_s:g} seconds and was stopped. "
        "Please try again later or ask for less at once.",
        server=server,
        tool=tool,
    )


def declined(server: str, tool: str | None = None) -> RequestDeclined:
    """Build the error for a request that a server refuses for what it is; it is no use to try the same again."""
    return RequestDeclined(
        f"The tool server {server!r} refused the request, for example because it is too large; nothing was done. "
        "Please try again with other arguments.",
        server=server,
        tool=tool,
        executed="no",
    )


def unauthorized(server: str, tool: str | None = None) -> CallRefused:
    """Build the error for a server that does not take the credentials it was called with; it is no use to try again."""
    return CallRefused(
        f"The tool server {server!r} does not accept the credentials it was called with. "
        "If they are those of the signed-in user, please sign in again.",
        server=server,
        tool=tool,
        executed="no",
    )


def unknown_caller(server: str, tool: str | None, of_user: Sequence[str], of_request: Sequence[str]) -> CallRefused:
    """Build the error for a call that needs to know more of its caller than is known."""
    needed = [f"{', '.join(of_user)} of the signed-in user"] if of_user else []
    needed += [f"{', '.join(of_request)} given with the request"] if of_request else []
    subject = f"the tool {tool!r} of the server {server!r}" if tool else f"the server {server!r}"
    return CallRefused(
        f"The call was not sent: {subject} needs {' and '.join(needed)}. Please sign in, or ask the operator.",
        server=server,
        tool=tool,
        executed="no",
    )


def unsendable_header(server: str, tool: str | None, header: str) -> CallRefused:
    """Build the error for a value of the caller that cannot be in an HTTP header; the value is not shown."""
    return CallRefused(
        f"The call was not sent: what is known of the caller cannot be sent in the header {header!r} of the server "
        f"{server!r}. It is too long, or has a line break or a character that is not Latin-1.",
        server=server,
        tool=tool,
        executed="no",
    )


def too_many_callers(server: str, tool: str | None) -> CallRefused:
    """Build the error for one caller more than a server has sessions for, all of which are in use."""
    return CallRefused(
        f"Too many users call the tool server {server!r} at this moment. Please try again in a few seconds.",
        server=server,
        tool=tool,
        executed="no",
    )


def not_understood(server: str, tool: str | None = None) -> ToolProtocolError:
    """Build the error for an answer that is not MCP."""
    return ToolProtocolError(
        f"The tool server {server!r} gave an answer that could not be understood.", server=server, tool=tool
    )


def too_large(server: str, tool: str | None = None) -> ToolProtocolError:
    """Build the error for an answer over the limit of what one message may take."""
    return ToolProtocolError(
        f"The tool server {server!r} gave an answer that is too large to be read. Please ask for less at once.",
        server=server,
        tool=tool,
    )


LONGEST_ERROR_BYTES = 2_000

LONGEST_DESCRIPTION = 4_000

LONGEST_NOTE = 500

_OMITTED = "…"


def error_text(text: str) -> str:
    """Return a server's error for the model, at most 2 kB of UTF-8."""
    return in_bytes(visible(text[: 4 * LONGEST_ERROR_BYTES]).strip(), LONGEST_ERROR_BYTES)


def description_text(text: str | None) -> str:
    """Return a description for the model; empty where there is none that can be seen."""
    clean = visible((text or "")[: 2 * LONGEST_DESCRIPTION]).strip()
    return clean if len(clean) <= LONGEST_DESCRIPTION else clean[: LONGEST_DESCRIPTION - 1] + _OMITTED


def note(text: str) -> str:
    """Return a short message on one line."""
    clean = " ".join(visible(text[: 4 * LONGEST_NOTE]).split())
    return clean if len(clean) <= LONGEST_NOTE else clean[: LONGEST_NOTE - 1] + _OMITTED


def in_bytes(text: str, most: int) -> str:
    """Cut a text so that it is at most `most` bytes of UTF-8."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= most:
        return text
    return encoded[: most - len(_OMITTED.encode())].decode("utf-8", "ignore") + _OMITTED
