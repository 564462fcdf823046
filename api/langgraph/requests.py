"""Read requests: JSON bodies of bounded size and depth, checked and with typos named; ids; query parameters."""

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
from toolweave.api.request_bodies import MIB, BodyLimit, is_deeper_than, read_limited
from toolweave.errors import InvalidRequest
from toolweave.json_values import LARGE_BYTES
from toolweave.runtime.codec import loads
from toolweave.runtime.models import JsonObject

Handler = Callable[[Request], Awaitable[ASGIApp]]
BODY_LIMIT = BodyLimit(32 * MIB)
# What is stored and sent back wraps a value in a few objects more; beyond 254 levels it cannot be encoded.
MAX_DEPTH = 200
MAX_SHOWN_IGNORED = 20


@dataclass(frozen=True, slots=True)
class Body:
    """A checked body: the known fields (absent and null ones alike missing), the names it ignored, and all as given."""

    fields: JsonObject
    ignored: tuple[str, ...] = ()
    given: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        """Give a field or its default."""
        return self.fields.get(name, default)

    def headers(self, *also: str) -> dict[str, str]:
        """Name what had no effect in `x-ignored-fields`, so that a typo is found; no header when all counted."""
        return ignored_header((*self.ignored, *also))


def ignored_header(names: Sequence[str]) -> dict[str, str]:
    """Name fields without effect in `x-ignored-fields`; no header when there are none."""
    if not names:
        return {}
    shown = ", ".join(quote(name, safe="$_-.", errors="replace")[:64] for name in names[:MAX_SHOWN_IGNORED])
    return {"x-ignored-fields": shown}


async def read_json(request: Request) -> Any:
    """Decode the body, whatever its content type says. Raises InvalidRequest for anything that is not JSON."""
    data = await read_limited(request, BODY_LIMIT)
    value = parse_json(data)
    if len(data) >= LARGE_BYTES:
        # What handlers do with a large value takes its time, too: others come in between.
        await asyncio.sleep(0)
    return value


def parse_json(data: bytes) -> Any:
    """Decode a body. Raises InvalidRequest for what is not JSON, or nested too deeply."""
    try:
        value = loads(data)
    except ValueError:
        raise InvalidRequest("Invalid JSON in request body") from None
    if is_deeper_than(value, data, MAX_DEPTH):
        raise InvalidRequest(f"The request body is nested more than {MAX_DEPTH} levels deep")
    return value


async def read_body(request: Request, schema: BodySchema) -> Body:
    """Read, decode and check a body."""
    value = await read_json(request)
    schema.check(value)
    return checked_body(value, schema) if isinstance(value, dict) else Body({}, given=value)


def checked_body(value: JsonObject, schema: BodySchema) -> Body:
    """Split a checked object into what is known and the names of what is not."""
    fields = {name: item for name, item in value.items() if item is not None and name in schema.field_names}
    for name in schema.integer_fields & fields.keys():
        fields[name] = int(fields[name])
    return Body(fields, tuple(name for name in value if name not in schema.field_names), value)


BOOLEANS = {**dict.fromkeys(("1", "true", "yes", "on"), True), **dict.fromkeys(("0", "false", "no", "off", ""), False)}
INTEGER_PATTERN = re.compile("-?[0-9]{1,19}")


def is_uuid(text: str) -> bool:
    """Say whether a text is a UUID in the usual form."""
    try:
        return len(text) == 36 and str(UUID(text)) == text.lower()
    except ValueError:
        return False


def parse_uuid(text: str, what: str) -> str:
    """Give a UUID in lower case. Raises InvalidRequest naming what it should identify."""
    if not is_uuid(text):
        raise InvalidRequest(f"Invalid {what} ID: must be a UUID")
    return text.lower()


def path_uuid(request: Request, what: str) -> str:
    """Read the id `{what}_id` from the path."""
    return parse_uuid(request.path_params[f"{what}_id"], what)


@dataclass(frozen=True, slots=True)
class QueryParam:
    """A query parameter or header of an endpoint, published and read by its schema."""

    name: str
    schema: Schema
    where: str = "query"

    def read(self, request: Request) -> Any:
        """Read a parameter or its default. Raises InvalidRequest when it does not fit the schema."""
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
    """Read a list: repeated parameters, a JSON list (what the JS SDK 2.0 sends) or both."""
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
