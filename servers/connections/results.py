"""Convert the result or failure of a tool call into the content of a ToolMessage.

A result of text only becomes a plain string: models and clients of `/chat/stream` read it as it is, and equal results
have equal contents. Characters that people cannot see but models read are removed from text (`visible`); the artifact's
structured content is for programs and is not changed. Images and files become content blocks beside the text.

Audio, files of unknown types and links to resources, which only their server can read, become notices. As blocks, they
would make every later turn of the thread fail, or make the model's endpoint fetch any address that a server names.
Blocks are distinguished by their `type`, so that this module imports no MCP library.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from toolweave import errors
from toolweave.invisible_text import cleaned_parts, visible_text

if TYPE_CHECKING:
    from mcp.types import CallToolResult

Block = dict[str, Any]
StoreResult = Callable[[str, int], Awaitable[str | None]]
"""Stores a text of which only the given number of characters is shown; returns how to read on, None if it failed."""
STORED_RESULT_KEY = "kept_result"
MAX_MEDIA_BLOCKS = 20
MAX_MEDIA_CHARS = 8_000_000
MAX_URL_CHARS = 4_000
MAX_LINK_NAME_CHARS = 200
PDF_TYPE = "application/pdf"
NARROW_REQUEST_HINT = "Ask for less at once, for example with a filter, a smaller limit or the next page."
WHOLE_RESULT_KEY = "whole_result"
"""The key in an artifact of the whole `text` and `structured_content` of a cut result."""
STORED_NOTICE = "The whole result is kept for the next steps: do not request it again."
Error = TypeVar("Error", bound=errors.ToolError)
MAX_ERROR_BYTES = 2_000
MAX_ARGUMENT_ERROR_BYTES = 1_900
MAX_DESCRIPTION_CHARS = 4_000
MAX_LINE_CHARS = 500
_ELLIPSIS = "…"


async def message_parts(
    result: "CallToolResult", limit: int, store: StoreResult | None = None
) -> tuple[str | list[str | Block], Block | None]:
    """Return the content and the artifact of a ToolMessage for a result.

    The content is a string if it is text only, otherwise a list of text and media blocks in the server's order. Text
    beyond `limit` characters is cut, with a notice (T-12). The artifact has the structured content, under the key that
    the MCP adapter uses, unless it is longer than `limit`.
    """
    blocks = [await _clean_block(block) for block in _content_blocks(result)]
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    artifact = _structured_artifact(result, limit)
    if len(text) > limit:
        read_hint = await store(text, limit) if store else None
        artifact = {STORED_RESULT_KEY: {"characters": len(text)}} if read_hint else None
        notice = (
            f"[The answer was cut: {limit} of its {len(text)} characters are shown. {read_hint or NARROW_REQUEST_HINT}]"
        )
        blocks = [*_cut_blocks(blocks, limit), _text(f"\n{notice}")]
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks), artifact
    return list(blocks), artifact


def text_content(result: "CallToolResult") -> str:
    """Return the text of a result without its media, as the server sent it."""
    return "\n".join(block["text"] for block in _content_blocks(result) if block["type"] == "text")


def _content_blocks(result: "CallToolResult") -> list[Block]:
    if not result.content and result.structuredContent is not None:
        return [_text(json.dumps(result.structuredContent, ensure_ascii=False))]
    blocks, media, chars_left = [], 0, MAX_MEDIA_CHARS
    for block in map(_block, result.content):
        if block["type"] != "text":
            media += 1
            size = len(block.get("base64", ""))
            if media > MAX_MEDIA_BLOCKS or size > chars_left:
                blocks.append(_text(f"[{block['type']}, {size * 3 // 4} bytes, too much to show]"))
                continue
            chars_left -= size
        blocks.append(block)
    return blocks


async def _clean_block(block: Block) -> Block:
    """Remove invisible characters from a block's text; a long text yields to the event loop between its parts."""
    if block["type"] != "text":
        return block
    parts = []
    for part in cleaned_parts(block["text"]):
        parts.append(part)
        if len(block["text"]) > len(part):
            await asyncio.sleep(0)
    return _text("".join(parts))


def _cut_blocks(blocks: list[Block], limit: int) -> list[Block]:
    """Return all media and the first `limit` characters of text, line breaks between texts included."""
    shown = []
    for block in blocks:
        if block["type"] != "text":
            shown.append(block)
        elif limit > 0:
            shown.append(_text(block["text"][:limit]))
            limit -= len(block["text"]) + 1
    return shown


def _structured_artifact(result: "CallToolResult", limit: int) -> Block | None:
    content = result.structuredContent
    return None if content is None or is_longer(content, limit) else {"structured_content": content}


def is_longer(value: Any, limit: int) -> bool:
    """Return whether a value has more than about `limit` characters as JSON, without serializing it."""
    pending = [value]
    while pending and limit >= 0:
        part = pending.pop()
        limit -= 2 + (len(part) if isinstance(part, str | list | Mapping) else 2)
        if isinstance(part, Mapping):
            pending.extend(part.keys())
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return limit < 0


def _block(content: Any) -> Block:
    match content.type:
        case "text":
            return _text(content.text)
        case "image":
            return {"type": "image", "base64": content.data, "mime_type": _type(content.mimeType)}
        case "audio":
            return _text(f"[audio of type {_type(content.mimeType)}, {len(content.data) * 3 // 4} bytes, not shown]")
        case "resource_link":
            link = f"{content.name[:MAX_LINK_NAME_CHARS]}, {str(content.uri)[:MAX_URL_CHARS]}"
            return _text(f"[resource {link}{_type_suffix(content.mimeType)}, not shown]")
        case "resource" if hasattr(content.resource, "text"):
            return _text(content.resource.text)
        case "resource":
            return _file(content.resource.mimeType, content.resource.blob)
        case other:
            return _text(f"[content of type {_type(other)}, not shown]")


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _file(mime_type: str | None, data: str) -> Block:
    kind = (mime_type or "").lower()
    if kind.startswith("image/"):
        return {"type": "image", "base64": data, "mime_type": _type(kind)}
    if kind == PDF_TYPE:
        return {"type": "file", "base64": data, "mime_type": PDF_TYPE, "filename": "file.pdf"}
    return _text(f"[file{_type_suffix(mime_type)}, {len(data) * 3 // 4} bytes, not shown]")


def _type_suffix(mime_type: str | None) -> str:
    return f" of type {_type(mime_type)}" if mime_type else ""


def _type(name: str) -> str:
    return name[:100]


async def whole_message_parts(
    result: "CallToolResult", limit: int, max_chars: int
) -> tuple[str | list[str | Block], dict[str, Any] | None]:
    """Return a message's content, cut to `limit` characters, and an artifact with up to `max_chars` of the result."""
    stored: dict[str, Any] = {}

    async def store(text: str, _limit: int) -> str:
        stored["text"] = text[:max_chars]
        return STORED_NOTICE

    content, artifact = await message_parts(result, limit, store)
    structured = result.structuredContent
    if structured is not None and is_longer(structured, limit) and not is_longer(structured, max_chars):
        stored["structured_content"] = structured
    return (content, {WHOLE_RESULT_KEY: stored}) if stored else (content, artifact)


@dataclass(frozen=True, slots=True)
class CallFailure(Generic[Error]):
    """Builds the error for one kind of failed call, with a text for models and users; causes go to the log only."""

    error: type[Error]
    text: str
    executed: Literal["no", "maybe"] = "no"

    def __call__(self, server: str, tool: str | None = None, **details: object) -> Error:
        """Build the error for a server and tool; `details` are the other fields of the text."""
        text = self.text.format(server=server, tool=tool, **details)
        return self.error(text, server=server, tool=tool, executed=self.executed)


unavailable = CallFailure(
    errors.ServerUnavailable, "The tool server {server!r} is not available right now. Please try again later."
)
# The call was not sent: the server is known to be down, or the breaker refuses calls.
temporarily_unavailable = CallFailure(
    errors.CallRefused, "The tool server {server!r} is temporarily unavailable. Please try again in a few seconds."
)
retries_exhausted = CallFailure(
    errors.RetriesExhausted,
    "The tool server {server!r} did not respond to {attempts} attempts of the call. Please try again later.",
    executed="maybe",
)
connection_closing = CallFailure(
    errors.CallRefused, "The tool server {server!r} is not available any more: the connection to it is being closed."
)
# Waiting does not help: the server is unknown, disabled or misconfigured.
server_unusable = CallFailure(errors.CallRefused, "The tool server {server!r} cannot be used: {reason}")
tool_excluded = CallFailure(
    errors.CallRefused, "The tool server {server!r} offers no tool named {name!r}. Use another tool."
)
connection_lost = CallFailure(
    errors.ServerUnavailable,
    "The connection to the tool server {server!r} broke before it answered; "
    "the request may or may not have been carried out. Please check, then try again.",
    executed="maybe",
)
# The deadline passed before a connection and a slot for the call were available.
send_timeout = CallFailure(
    errors.ToolTimeout,
    "The tool server {server!r} was not ready for the call within {limit_s:g} seconds. "
    "Please try again in a few seconds.",
)
call_timeout = CallFailure(
    errors.ToolTimeout,
    "The tool {tool!r} took longer than {limit_s:g} seconds and was stopped. "
    "Please try again later or ask for less at once.",
    executed="maybe",
)
bad_arguments = CallFailure(errors.InvalidArguments, "The call was not sent: {problem}. Please correct the arguments.")
# The server rejects the request itself, so that repeating it is useless.
bad_request = CallFailure(
    errors.RequestDeclined,
    "The tool server {server!r} refused the request, for example because it is too large; nothing was done. "
    "Please try again with other arguments.",
)
credentials_rejected = CallFailure(
    errors.CallRefused,
    "The tool server {server!r} does not accept the credentials it was called with. "
    "If they are those of the signed-in user, please sign in again.",
)
caller_required = CallFailure(
    errors.CallRefused, "The call was not sent: {subject} needs {needed}. Please sign in, or ask the operator."
)
# The text omits the value, which may be a secret.
bad_caller_header = CallFailure(
    errors.CallRefused,
    "The call was not sent: the caller's value for the header {header!r} of the server {server!r} is not valid. "
    "It is too long, or has a line break or a character that is not Latin-1.",
)
too_many_callers = CallFailure(
    errors.CallRefused,
    "Too many users call the tool server {server!r} at this moment. Please try again in a few seconds.",
)
# Instead of a tool's name, the failures of reads have the URI of the resource.
read_timeout = CallFailure(
    errors.ToolTimeout, "The tool server {server!r} did not send {tool!r} within {limit_s:g} seconds."
)
read_refused = CallFailure(errors.ToolError, "The tool server {server!r} did not send {tool!r}: {reason}")
bad_response = CallFailure(
    errors.ToolProtocolError,
    "The tool server {server!r} gave an answer that could not be understood.",
    executed="maybe",
)
response_too_large = CallFailure(
    errors.ToolProtocolError,
    "The tool server {server!r} gave an answer that is too large to be read. Please ask for less at once.",
    executed="maybe",
)


def arguments_error(tool: str, problems: Sequence[str]) -> str:
    """Return the text for a call that was not sent because its arguments do not match the schema."""
    text = f"The call of {tool!r} was not sent, its arguments do not fit: {'; '.join(problems)}."
    return f"{truncate_bytes(visible_text(text), MAX_ARGUMENT_ERROR_BYTES)} Correct them and call the tool again."


def error_text(text: str) -> str:
    """Return a server's error text for the model, at most 2 kB of UTF-8."""
    return truncate_bytes(visible_text(text[: 4 * MAX_ERROR_BYTES]).strip(), MAX_ERROR_BYTES)


def description_text(text: str | None) -> str:
    """Return a tool's description for the model; empty if it has no visible text."""
    clean = visible_text((text or "")[: 2 * MAX_DESCRIPTION_CHARS]).strip()
    return clean if len(clean) <= MAX_DESCRIPTION_CHARS else clean[: MAX_DESCRIPTION_CHARS - 1] + _ELLIPSIS


def one_line(text: str) -> str:
    """Return a message on one line of at most `MAX_LINE_CHARS`."""
    clean = " ".join(visible_text(text[: 4 * MAX_LINE_CHARS]).split())
    return clean if len(clean) <= MAX_LINE_CHARS else clean[: MAX_LINE_CHARS - 1] + _ELLIPSIS


def truncate_bytes(text: str, max_bytes: int) -> str:
    """Cut a text to at most `max_bytes` of UTF-8."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= max_bytes:
        return text
    return encoded[: max_bytes - len(_ELLIPSIS.encode())].decode("utf-8", "ignore") + _ELLIPSIS
