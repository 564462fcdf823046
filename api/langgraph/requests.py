"""Parse requests: JSON bodies of limited size and depth, ids and query parameters."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote
from uuid import UUID

from jsonschema_rs import ValidationError, validate
from starlette.requests import Request
from starlette.types import ASGIApp

from toolweave.api.langgraph.json_schema import BodySchema, Schema, page_fields
from toolweave.api.request_bodies import MIB, BodyLimit, is_deeper_than, read_limited_body
from toolweave.errors import InvalidRequest
from toolweave.json_values import LARGE_BYTES
from toolweave.runtime.codec import loads
from toolweave.runtime.models import JsonObject

Handler = Callable[[Request], Awaitable[ASGIApp]]
BODY_LIMIT = BodyLimit(32 * MIB)
# orjson encodes at most 254 levels; stored and returned values get a few more around them.
MAX_DEPTH = 200
MAX_SHOWN_IGNORED = 20


@dataclass(frozen=True, slots=True)
class Body:
    """A checked body: `fields` are the known fields that are not null, `ignored` the names of unknown fields."""

    fields: JsonObject
    ignored: tuple[str, ...] = ()
    value: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field or the default."""
        return self.fields.get(name, default)

    def ignored_header(self, *also: str) -> dict[str, str]:
        """Return `x-ignored-fields` with the ignored fields and `also`, so that clients notice typos."""
        return ignored_header((*self.ignored, *also))


def ignored_header(names: Sequence[str]) -> dict[str, str]:
    """Return the header `x-ignored-fields` with these names; no header without names."""
    if not names:
        return {}
    shown = ", ".join(quote(name, safe="$_-.", errors="replace")[:64] for name in names[:MAX_SHOWN_IGNORED])
    return {"x-ignored-fields": shown}


async def read_json(request: Request) -> Any:
    """Parse the body as JSON, with any content type. Raises InvalidRequest if it is not JSON."""
    data = await read_limited_body(request, BODY_LIMIT)
    value = parse_json(data)
    if len(data) >= LARGE_BYTES:
        # Let other tasks run: handling a large value takes long, too.
        await asyncio.sleep(0)
    return value


def parse_json(data: bytes) -> Any:
    """Parse a body. Raises InvalidRequest if it is not JSON or nested too deeply."""
    try:
        value = loads(data)
    except ValueError:
        raise InvalidRequest("Invalid JSON in request body") from None
    if is_deeper_than(value, data, MAX_DEPTH):
        raise InvalidRequest(f"The request body is nested more than {MAX_DEPTH} levels deep")
    return value


async def read_body(request: Request, schema: BodySchema) -> Body:
    """Return the body of a request, parsed and checked."""
    value = await read_json(request)
    schema.check(value)
    return checked_body(value, schema) if isinstance(value, dict) else Body({}, value=value)


def checked_body(value: JsonObject, schema: BodySchema) -> Body:
    """Split a checked object into known fields and names of ignored ones."""
    fields = {name: item for name, item in value.items() if item is not None and name in schema.field_names}
    for name in schema.integer_fields & fields.keys():
        fields[name] = int(fields[name])
    return Body(fields, tuple(name for name in value if name not in schema.field_names), value)


BOOLEANS = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off", ""), False)}
INTEGER_PATTERN = re.compile("-?[0-9]{1,19}")


def is_uuid(text: str) -> bool:
    """Return whether a text is a UUID in the canonical form, in any case."""
    try:
        return len(text) == 36 and str(UUID(text)) == text.lower()
    except ValueError:
        return False


def parse_uuid(text: str, what: str) -> str:
    """Return a UUID in lower case. Raises InvalidRequest, which names `what` the id should identify."""
    if not is_uuid(text):
        raise InvalidRequest(f"Invalid {what} ID: must be a UUID")
    return text.lower()


def path_uuid(request: Request, what: str) -> str:
    """Return the id `{what}_id` of the path."""
    return parse_uuid(request.path_params[f"{what}_id"], what)


@dataclass(frozen=True, slots=True)
class QueryParam:
    """A query parameter or header as the OpenAPI document publishes it; `read` checks a query parameter."""

    name: str
    schema: Schema
    location: str = "query"

    def read(self, request: Request) -> Any:
        """Return the value or the default. Raises InvalidRequest if the value does not match the schema."""
        text = request.query_params.get(self.name)
        if text is None:
            return self.schema.get("default")
        value: Any = text
        word = text.strip().lower()
        if self.schema["type"] == "array":
            value = list(query_list(request, self.name))
        elif self.schema["type"] == "integer" and INTEGER_PATTERN.fullmatch(word):
            value = int(word)
        elif self.schema["type"] == "boolean":
            value = BOOLEANS.get(word, text)
        try:
            validate(self.schema, value, mask="it")
        except ValidationError as error:
            raise InvalidRequest(f"Invalid {self.name} value: {error.message}") from None
        return value


LIMIT_PARAM, OFFSET_PARAM = (QueryParam(name, schema) for name, schema in page_fields().items())


def query_list(request: Request, name: str, *, keep_empty: bool = False) -> tuple[str, ...]:
    """Return a list parameter: repeated parameters, a JSON list (as the JS SDK 2.0 sends it) or both."""
    words: list[str] = []
    for text in request.query_params.getlist(name):
        words.extend(_json_list(text) if text.startswith("[") else [text])
    return tuple(word for word in words if word or keep_empty)


def _json_list(text: str) -> list[str]:
    try:
        words = loads(text)
    except ValueError:
        return [text]
    return [str(word) for word in words] if isinstance(words, list) else [text]
