"""Read a message that a client sends, and make the graph's input of its parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolweave.api.langgraph.a2a.dialect import USER_ROLES
from toolweave.api.langgraph.json_rpc import INVALID_PARAMS, RpcError
from toolweave.runtime.models import JsonObject

CONTENT_NOT_SUPPORTED = -32005
SUPPORTED = "A2A agents support 'text', 'data', and 'file' parts only."
MEDIA = ("image", "audio", "video")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A checked message: what it says as chat content (None without any), its data, and which task it belongs to."""

    message_id: str
    from_user: bool
    content: str | list[JsonObject] | None
    data: JsonObject | None
    context_id: str | None
    task_id: str | None
    shown: JsonObject

    def graph_input(self) -> JsonObject:
        """Give the graph's input: the data, and what was said as a message unless the data brings messages."""
        if self.content is None:
            return self.data or {}
        role = "human" if self.from_user else "ai"
        said = {"role": role, "content": self.content, "id": self.message_id}
        return {"messages": [said], **(self.data or {})}

    def answer(self) -> Any:
        """Give what the message answers a question of the graph with."""
        return self.content if self.data is None else self.data


def incoming(params: JsonObject) -> Incoming:
    """Check the `message` of a call's params.

    Raises:
        RpcError: a field is missing or of the wrong type, or a part is of an unknown kind.
    """
    message = params.get("message")
    if not isinstance(message, dict) or not message:
        raise RpcError(INVALID_PARAMS, "Missing or invalid 'message' in params")
    for name in ("messageId", "role", "parts"):
        if message.get(name) is None:
            raise RpcError(INVALID_PARAMS, f"Missing required '{name}' in message")
    parts = message["parts"]
    if not isinstance(parts, list):
        raise RpcError(INVALID_PARAMS, "Invalid params: 'parts' must be an array")
    if not parts:
        raise RpcError(INVALID_PARAMS, "Message must contain at least one part")
    blocks, data = _read(parts)
    return Incoming(
        message_id=str(message["messageId"]),
        from_user=message["role"] in USER_ROLES if isinstance(message["role"], str) else False,
        content=_content(blocks),
        data=data,
        context_id=_text_or_none(message, "contextId"),
        task_id=_text_or_none(message, "taskId"),
        shown={"role": message["role"], "parts": parts},
    )


def _read(parts: Sequence[Any]) -> tuple[list[JsonObject], JsonObject | None]:
    blocks: list[JsonObject] = []
    data: JsonObject | None = None
    for part in parts:
        if not isinstance(part, dict):
            raise RpcError(CONTENT_NOT_SUPPORTED, f"Each message part must be an object. {SUPPORTED}")
        if "data" in part:
            if not isinstance(part["data"], dict):
                raise RpcError(CONTENT_NOT_SUPPORTED, "DataPart must contain a JSON object in the 'data' field")
            data = {**(data or {}), **part["data"]}
        else:
            blocks.append(_block(part))
    return blocks, data


def _block(part: JsonObject) -> JsonObject:
    """Make a content block of a text or file part."""
    if "text" in part:
        if not isinstance(part["text"], str):
            raise RpcError(INVALID_PARAMS, "TextPart must contain text in the 'text' field")
        return {"type": "text", "text": part["text"]}
    file = part.get("file")
    if isinstance(file, dict):
        return _file(file.get("uri"), file.get("bytes"), file.get("mimeType"), file.get("name"))
    if "url" in part or "raw" in part:
        return _file(part.get("url"), part.get("raw"), part.get("mediaType"), part.get("filename"))
    raise RpcError(CONTENT_NOT_SUPPORTED, f"Unsupported part type. {SUPPORTED}")


def _file(url: Any, content: Any, media_type: Any, name: Any) -> JsonObject:
    if not isinstance(url, str) and not isinstance(content, str):
        raise RpcError(CONTENT_NOT_SUPPORTED, "FilePart must contain a file with 'uri' or 'bytes'")
    kind = str(media_type).partition("/")[0]
    block: JsonObject = {"type": kind if kind in MEDIA else "file"}
    block |= {"url": url} if isinstance(url, str) else {"base64": content}
    if isinstance(media_type, str):
        block["mime_type"] = media_type
    if isinstance(name, str):
        block["extras"] = {"filename": name}
    return block


def _content(blocks: list[JsonObject]) -> str | list[JsonObject] | None:
    if not blocks:
        return None
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _text_or_none(message: JsonObject, name: str) -> str | None:
    value = message.get(name)
    if value is not None and not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be a string")
    return value or None
