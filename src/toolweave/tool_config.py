"""Define ToolConfig: one operation of an HTTP API that a model may choose (W-01).

It contains references to credentials only: `{env:VAR}` is resolved when a request is sent.

Its mappings assign fields to locations in the request (`path.id`, `query.q`, `header.X-Trace`, `body.user.name`) and
select the output from the response (JSONPath, RFC 9535). A location in a body has names and indexes only:
`body.user.name`, `body.$['first name']`, `body.$.lines[0].sku`; `body.$` is the whole body. A path into a response may
have no regular expressions, and its filters only names and indexes: an API's response must not determine the cost.
"""

import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Annotated, Any, Literal, Self

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.filter import FilterQuery, walk
from jsonpath.function_extensions import Length
from jsonpath.selectors import Filter, IndexSelector, NameSelector
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
    model_validator,
)

from toolweave.config.outbound_allow import HEADER_NAME, is_client_header
from toolweave.errors import OutboundRefused
from toolweave.outbound_policy import parse_target
from toolweave.redact import is_secret_header_name, redact_text
from toolweave.schema import Schema

RequestPart = Literal["path", "query", "header", "body"]
MAX_LOCATION_CHARS = 500
MAX_BODY_ITEMS = 100
"""The maximum length of a list in a body: a location such as `body.$[99999999]` would fill the memory."""
_LOCATION = re.compile(r"(?P<part>path|query|header|body)\.(?P<name>.+)", re.DOTALL)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Names with a special meaning in the languages of APIs, and names that are not valid text.
_SPECIAL_NAME = re.compile(r"__.*__|.*[\ud800-\udfff].*", re.DOTALL)
_PATH_ERRORS = (JSONPathError, ValueError, ArithmeticError, RecursionError, AssertionError)
PathSteps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RequestLocation:
    """A location in a request: the part, and the name or, in a body, the JSONPath."""

    part: RequestPart
    name: str

    def __str__(self) -> str:
        return f"{self.part}.{self.name}"

    @property
    def steps(self) -> PathSteps:
        """Return the names and indexes from the body's root to this location; empty for the whole body."""
        return _parse_body_path(self.name) if self.part == "body" else (self.name,)


def parse_location(value: Any) -> Any:
    """Parse `<part>.<name>`; raises ValueError."""
    if isinstance(value, RequestLocation):
        return value
    found = _LOCATION.fullmatch(value) if isinstance(value, str) and len(value) <= MAX_LOCATION_CHARS else None
    if found is None:
        raise ValueError("a mapping must be path.<name>, query.<name>, header.<name> or body.<JSONPath>")
    part: RequestPart = found["part"]  # type: ignore[assignment]
    return _location(part, found["name"])


def _location(part: RequestPart, name: str) -> RequestLocation:
    if part == "header" and not HEADER_NAME.fullmatch(name):
        raise ValueError("the name of a header may hold letters, digits and hyphens only")
    if part == "body":
        _parse_body_path(name)
    elif not name.isprintable():
        raise ValueError("the name of a parameter may hold no control characters")
    return RequestLocation(part, name)


def body_location(*steps: str | int) -> RequestLocation:
    """Return the location in a body from names and indexes; raises ValueError for names that are not allowed."""
    return _location("body", "$" + "".join(f"[{step}]" if isinstance(step, int) else _quote(step) for step in steps))


def _quote(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name):
        return f".{name}"
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


@lru_cache(maxsize=4_096)
def _parse_body_path(name: str) -> PathSteps:
    """Parse `user.name` or `$.user.name`; raises ValueError."""
    path = _compile_path(name if name.startswith("$") else f"$.{name}")
    if not path.singular_query():
        raise ValueError("a place in a body is made of names and indexes only, such as body.user.name or body.$.ids[0]")
    selectors = [segment.selectors[0] for segment in path.segments]
    steps = tuple(
        selector.name if isinstance(selector, NameSelector) else selector.index
        for selector in selectors
        if isinstance(selector, NameSelector | IndexSelector)
    )
    if any(isinstance(step, int) and not 0 <= step < MAX_BODY_ITEMS for step in steps):
        raise ValueError(f"an index in a body is between 0 and {MAX_BODY_ITEMS - 1}")
    if any(isinstance(step, str) and _SPECIAL_NAME.fullmatch(step) for step in steps):
        raise ValueError("a name in a body may not begin and end with __, nor hold half a character")
    return steps


def find_location_conflict(locations: Mapping[str, RequestLocation]) -> str | None:
    """Return which locations of fields exclude each other, None if none: the same twice, or one inside another."""
    used: dict[tuple[str, PathSteps], str] = {}
    inner: dict[PathSteps, str | int] = {}
    for name, location in locations.items():
        steps = (location.name.lower(),) if location.part == "header" else location.steps
        if (other := used.setdefault((location.part, steps), name)) != name:
            return f"the fields {other} and {name} both go to {location}"
        if location.part == "body":
            for depth, step in enumerate(steps):
                if type(inner.setdefault(steps[:depth], step)) is not type(step):
                    return f"{location} and the other places would make the same thing a list and an object"
    nested = next((name for (part, steps), name in used.items() if part == "body" and steps in inner), None)
    return None if nested is None else f"{locations[nested]} of {nested} holds the place of another field"


@lru_cache(maxsize=4_096)
def parse_response_path(text: str) -> JSONPath:
    """Parse and check a JSONPath for a response; raises ValueError."""
    path = _compile_path(text)
    filters = [selector for segment in path.segments for selector in segment.selectors if isinstance(selector, Filter)]
    queries = [part for found in filters for part in walk(found.expression) if isinstance(part, FilterQuery)]
    if not all(query.path.singular_query() for query in queries):
        raise ValueError("a filter of a JSONPath may use names and indexes only, such as $.items[?@.price < 10].id")
    return path


def check_response_path(value: str) -> str:
    """Check a JSONPath for a response and return it; raises ValueError."""
    parse_response_path(value)
    return value


def _compile_path(text: str) -> JSONPath:
    if not text.startswith("$"):
        raise ValueError("a JSONPath begins with $, such as $.data.items[*].id")
    try:
        path = _environment().compile(text)
    except _PATH_ERRORS as error:
        reason = error.message if isinstance(error, JSONPathError) else "it has a number that cannot be read"
        raise ValueError(f"the JSONPath {text[:60]!r} cannot be read: {reason}") from None
    if not isinstance(path, JSONPath):
        raise ValueError("a JSONPath cannot be joined with another one")  # noqa: TRY004 - pydantic takes ValueErrors
    return path


class _Environment(JSONPathEnvironment):
    """RFC 9535 without its regular expression functions, which a response could make run for ever."""

    def setup_function_extensions(self) -> None:
        self.function_extensions["length"] = Length()


@cache
def _environment() -> JSONPathEnvironment:
    return _Environment(strict=True)


MappedLocation = Annotated[
    RequestLocation,
    BeforeValidator(parse_location),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^(path|query|header|body)\..", "maxLength": MAX_LOCATION_CHARS}),
]
ResponsePath = Annotated[str, Field(min_length=1, max_length=MAX_LOCATION_CHARS), AfterValidator(check_response_path)]
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]
MethodField = Annotated[Method, BeforeValidator(lambda value: str(value).upper())]
BODYLESS: frozenset[Method] = frozenset({"GET", "DELETE", "HEAD"})
"""Methods whose unmapped fields go to the query; with other methods they go to a JSON body."""
TOOL_ID = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""A slug that is also a valid function name for chat models."""
RESERVED_IDS = frozenset({"export", "import"})
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
MAX_TIMEOUT_S = 120.0
MAX_RESPONSE_FIELDS = 200
MAX_HEADERS = 100
MAX_HEADER_CHARS = 8_192
MAX_PATH_CHARS = 2_000
_FIELD_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_DOT_SEGMENT = re.compile(r"(?:^|/|%2f|%5c)(?:\.|%2e){1,2}(?:/|%2f|%5c|$)", re.IGNORECASE)
# These headers change the request's method.
_METHOD_HEADERS = frozenset({"x-http-method", "x-http-method-override", "x-method-override"})
# Arguments must not set the credentials and the type of the body.
_CONFIGURED_HEADERS = frozenset({"authorization", "cookie", "content-type"})
_STORED_CONTEXT = {"schemas": "well-formed"}
_FORM_STEPS = "form_steps"
ToolId = Annotated[str, Field(pattern=TOOL_ID)]
RequiredText = Annotated[str, Field(min_length=1, max_length=10_000)]


def validation_context(form_steps: list[int]) -> dict[str, Any]:
    """Return the pydantic context for tools whose schemas share these steps (`Schema`)."""
    return {_FORM_STEPS: form_steps}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class ApiAuth(_Strict):
    """The credential for an API; `value` is a template such as `{env:TOOL_SHOP_KEY}` or a literal secret.

    For "basic" it is `name:password`. It is added when the request is sent and never shown (W-08).
    """

    type: Literal["none", "api_key", "bearer", "basic"] = "none"
    location: Literal["header", "query"] = "header"
    name: str | None = Field(default=None, max_length=200)
    value: str | None = Field(default=None, min_length=1, max_length=10_000, repr=False)

    @model_validator(mode="after")
    def _check_complete(self) -> Self:
        if self.type == "none":
            return self
        if self.value is None:
            raise ValueError(f"auth of type {self.type} needs a value, such as {{env:TOOL_KEY}}")
        if self.type == "api_key" and not self.name:
            raise ValueError("auth of type api_key needs the name of the header or query parameter")
        if self.type == "api_key" and self.location == "header" and not HEADER_NAME.fullmatch(self.name or ""):
            raise ValueError("the name of an auth header may hold letters, digits and hyphens only")
        if self.type == "api_key" and self.location == "header" and is_connection_header(self.name or ""):
            raise ValueError(f"the header {self.name} is set by the client itself and carries no credential")
        return self


class ApiOperation(_Strict):
    """The HTTP request of an operation; `path` contains `{placeholders}`, `timeout_s` is in seconds."""

    base_url: str = Field(
        min_length=1, max_length=2_000, description="Where the API is: scheme, host, port, first steps of its paths."
    )
    path: str = Field(default="/", max_length=MAX_PATH_CHARS, description="With {placeholders} for input fields.")
    method: MethodField
    headers: dict[str, str] = Field(default_factory=dict, max_length=MAX_HEADERS, repr=False)
    auth: ApiAuth = ApiAuth()
    timeout_s: float = Field(default=30.0, gt=0, le=MAX_TIMEOUT_S, allow_inf_nan=False)

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Return the names of the path's placeholders."""
        return tuple(PLACEHOLDER.findall(self.path))

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, value: str) -> str:
        try:
            parse_target(value)
        except OutboundRefused as error:
            raise ValueError(f"the base_url cannot be used: {error}") from None
        if "?" in value or "#" in value or "{" in value or _DOT_SEGMENT.search(value.partition("//")[2]):
            raise ValueError("the base_url may hold no query, fragment, placeholder or dot segment")
        return value.rstrip("/")

    @field_validator("path")
    @classmethod
    def _check_path(cls, value: str) -> str:
        path = value if value.startswith("/") else f"/{value}"
        unfilled = PLACEHOLDER.sub("x", path)
        if any(character in "{}?#\\" or not character.isprintable() or character == " " for character in unfilled):
            raise ValueError("the path may hold no blank, backslash, query, fragment or lone brace")
        if _DOT_SEGMENT.search(unfilled):
            raise ValueError("the path may hold no dot segments")
        names = PLACEHOLDER.findall(path)
        if len(set(names)) < len(names) or not all(_FIELD_NAME.fullmatch(name) for name in names):
            raise ValueError("each placeholder of the path needs a name of its own, of letters, digits and _.-")
        return path

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if len(name) + len(text) > MAX_HEADER_CHARS:
                raise ValueError(f"a header is longer than {MAX_HEADER_CHARS} characters")
            if not HEADER_NAME.fullmatch(name) or any(not (32 <= ord(character) < 127) for character in text):
                raise ValueError("a header's name or value holds a character that headers cannot carry")
            if is_connection_header(name):
                raise ValueError(f"the header {name} is set by the client itself; leave it out")
        if len({name.lower() for name in value}) < len(value):
            raise ValueError("a header is given twice: upper and lower case make no difference")
        return value


class FieldMappings(_Strict):
    """The mapping from input fields to a request, and from a response to the output."""

    request: dict[str, MappedLocation] = Field(
        default_factory=dict,
        description="Input field to path.<name>, query.<name>, header.<name> or body.<JSONPath>; "
        "others go to the placeholder of their name, else to the query (GET, DELETE, HEAD) or the JSON body.",
    )
    response: dict[str, ResponsePath] = Field(
        default_factory=dict,
        max_length=MAX_RESPONSE_FIELDS,
        description="Output field to JSONPath into the answer's body; without any the body is the output.",
    )

    @model_serializer(mode="wrap")
    def _serialize_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Absent mappings are stored and shown as {} (W-01).
        return {name: part for name, part in handler(self).items() if part}


class ToolConfig(_Strict):
    """One operation of an HTTP API with the schemas of its input and output."""

    tool_id: ToolId
    name: RequiredText
    description: RequiredText = Field(description="What the tool does: it is what a model chooses by.")
    api: ApiOperation
    input_schema: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}, description="JSON Schema of the arguments."
    )
    output_schema: dict[str, Any] = Field(
        default_factory=dict, description="JSON Schema of the output; one that does not fit is a warning."
    )
    field_mappings: FieldMappings = FieldMappings()
    # Left out if empty: earlier versions refuse a stored tool with an unknown field.
    tags: tuple[RequiredText, ...] = Field(
        default=(), max_length=1_000, exclude_if=operator.not_, description="Labels by which workflows select tools."
    )

    @classmethod
    def from_stored(cls, document: Any) -> Self:
        """Parse a configuration that was validated when it was stored; its schemas are assumed to be well-formed.

        The form check of a schema takes milliseconds, longer than all other checks.
        """
        return cls.model_validate(document, context=_STORED_CONTEXT)

    @cached_property
    def input_validator(self) -> Schema:
        """Return the compiled input_schema, which validates arguments."""
        return Schema(self.input_schema, well_formed=True)

    @cached_property
    def output_validator(self) -> Schema:
        """Return the compiled output_schema, which validates outputs."""
        return Schema(self.output_schema, well_formed=True)

    @property
    def input_fields(self) -> dict[str, Any]:
        """Return the schemas of the input's fields by name."""
        properties = self.input_schema.get("properties")
        return properties if isinstance(properties, dict) else {}

    @property
    def request_locations(self) -> dict[str, RequestLocation]:
        """Return each field's location: as mapped, else the placeholder of its name, else the query or JSON body."""
        mapped, method = self.field_mappings.request, self.api.method
        return {
            name: mapped.get(name) or _location_of(name, self.api.placeholders, method) for name in self.input_fields
        }

    @property
    def required_fields(self) -> tuple[str, ...]:
        """Return the names of the required fields."""
        required = self.input_schema.get("required")
        return tuple(name for name in required if isinstance(name, str)) if isinstance(required, list) else ()

    @property
    def secret_headers(self) -> frozenset[str]:
        """Return the names of the static headers that count as credentials."""
        return frozenset(name for name, text in self.api.headers.items() if is_secret_header(name, text))

    @field_validator("tool_id")
    @classmethod
    def _check_tool_id(cls, value: str) -> str:
        if value.lower() in RESERVED_IDS:
            raise ValueError(f"the tool_id {value} is a path of the API itself; choose another one")
        return value

    @field_validator("input_schema", "output_schema")
    @classmethod
    def _check_schema(cls, value: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        if value:
            steps = info.context.get(_FORM_STEPS) if info.context else None
            Schema(value, well_formed=info.context is _STORED_CONTEXT, form_steps=steps)
        return value

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.input_schema.get("type", "object") != "object":
            raise ValueError("the input_schema must describe an object")
        mapped = self.field_mappings.request
        if unknown := [name for name in mapped if name not in self.input_fields]:
            raise ValueError(f"field_mappings.request names fields that the input_schema has not: {_listed(unknown)}")
        locations = self.request_locations
        filled = {location.name for location in locations.values() if location.part == "path"}
        if empty := [name for name in self.api.placeholders if name not in filled]:
            raise ValueError(f"no input field fills the path's placeholder {_listed(empty)}")
        if extra := sorted(filled.difference(self.api.placeholders)):
            raise ValueError(f"field_mappings.request fills a placeholder that the path has not: {_listed(extra)}")
        if self.api.method in BODYLESS and any(location.part == "body" for location in locations.values()):
            raise ValueError(f"a {self.api.method} request has no body; map the fields to its query")
        if problem := find_location_conflict(locations) or self._find_overwritten(locations):
            raise ValueError(problem)
        return self

    def _find_overwritten(self, locations: dict[str, RequestLocation]) -> str | None:
        """Return which field's location the configuration or the client fills, None if none."""
        configured_keys = {("header", name.lower()) for name in self.api.headers}
        if self.api.auth.type == "api_key":
            configured_keys.add((self.api.auth.location, (self.api.auth.name or "").lower()))
        for name, location in locations.items():
            key = location.name.lower()
            configured = location.part == "header" and (is_connection_header(key) or key in _CONFIGURED_HEADERS)
            if configured or (location.part, key) in configured_keys:
                return f"the field {name} goes to {location}, which the configuration or the client fills already"
        return None


def _listed(names: list[str]) -> str:
    return ", ".join(name[:60] for name in names[:5])


def is_secret_header(name: str, text: str) -> bool:
    """Return whether a header counts as a credential: by its name, its form or a reference to a variable."""
    return is_secret_header_name(name) or "{env:" in text or redact_text(text) != text


def is_connection_header(name: str) -> bool:
    """Return whether only the client may set a header: it belongs to the connection or overrides the method."""
    return is_client_header(name) or name.lower() in _METHOD_HEADERS


def _location_of(name: str, placeholders: tuple[str, ...], method: Method) -> RequestLocation:
    if name in placeholders:
        return RequestLocation("path", name)
    location: RequestLocation = parse_location(f"query.{name}") if method in BODYLESS else body_location(name)
    return location
