"""Read the parts of an operation's request: URL, credentials, parameters and JSON body (W-01, W-08).

Parameters and body become the fields of one flat input. Documents contain no credentials; a tool refers to environment
variables named after the document's title and the scheme: `{env:TOOL_<TITLE>_<SCHEME>}`. The document's author chooses
the title, so an operator with several APIs binds each variable to its host (`TOOLWEAVE_TOOL_ENV`).

The parts that are not schemas are validated with openapi-pydantic's models of 3.1, which for these parts accept 3.0,
too. They are applied to one part at a time, and never to schemas: so a mistake affects one operation only, `true` stays
a schema and 10 stays an integer. `fastmcp.utilities.openapi` validates a document as a whole, refuses all of it for one
external reference, and imports a web server.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, TypeVar
from urllib.parse import urljoin

from openapi_pydantic import Parameter, SecurityScheme, Server
from pydantic import BaseModel, ValidationError

from toolweave import tool_config
from toolweave.config.outbound_allow import HEADER_NAME
from toolweave.errors import OutboundRefused
from toolweave.outbound_policy import parse_target
from toolweave.servers.registry.openapi.schemas import (
    ANNOTATION_KEYS,
    CHARS_PER_STEP,
    MAX_TEXT_LENGTH,
    OpenApiDocument,
    SchemaConverter,
    UnusablePart,
    excerpt,
    json_content,
    json_media_rank,
    measure_size,
)

MAX_FIELDS = 200
MAX_FIELD_NAME_LENGTH = 64
# Only the beginning of a longer name is matched, because a regular expression holds the GIL.
MAX_SCANNED_CHARS = 2_000
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NOT_NAME_CHARS = re.compile(r"[^A-Za-z0-9_.-]+")
_PART_ORDER: dict[tool_config.RequestPart, int] = {"path": 0, "query": 1, "header": 2, "body": 3}


@dataclass(frozen=True)
class InputField:
    """A value of an operation; `target` is the name of its parameter or body property."""

    part: tool_config.RequestPart
    target: str
    schema: dict[str, Any]
    required: bool = False
    whole_body: bool = False


def build_flat_input(fields: Iterable[InputField], method: tool_config.Method) -> tuple[dict[str, Any], dict[str, str]]:
    """Build a tool's input schema, and the mappings of the fields whose name alone does not determine their target.

    Of several values with one name, the first of path, query, headers and body keeps it; others become `<name>_<part>`.

    Raises:
        UnusablePart: there are more than `MAX_FIELDS` fields, or one has a name that a body cannot contain.
    """
    ordered = sorted(fields, key=lambda item: _PART_ORDER[item.part])
    if len(ordered) > MAX_FIELDS:
        raise UnusablePart(f"it takes more than {MAX_FIELDS} values")
    named: dict[str, InputField] = {}
    for item in ordered:
        named[_free_name(item, named)] = item
    required = [name for name, item in named.items() if item.required]
    schema: dict[str, Any] = {"type": "object", "properties": {name: item.schema for name, item in named.items()}}
    if required:
        schema["required"] = required
    return schema, {name: str(place) for name, item in named.items() if (place := _mapping(name, item, method))}


def safe_name(text: str) -> str:
    """Return a field name that models and JSON Schema tools accept."""
    name = _NOT_NAME_CHARS.sub("_", text[:MAX_SCANNED_CHARS]).strip("_.-")[:MAX_FIELD_NAME_LENGTH]
    return name if name[:1].isalpha() else f"field_{name}"[:MAX_FIELD_NAME_LENGTH].rstrip("_")


def _free_name(item: InputField, taken: dict[str, InputField]) -> str:
    if item.whole_body:
        preferred = "body"
    elif item.part == "header":
        preferred = safe_name(item.target).lower().replace("-", "_")
    else:
        preferred = item.target if _IDENTIFIER.fullmatch(item.target) else safe_name(item.target)
    numbered = (f"{preferred[: MAX_FIELD_NAME_LENGTH - 12]}_{item.part}_{number}" for number in count(2))
    names = chain([preferred, f"{preferred[: MAX_FIELD_NAME_LENGTH - 7]}_{item.part}"], numbered)
    return next(name for name in names if name not in taken)


def _mapping(name: str, item: InputField, method: tool_config.Method) -> tool_config.RequestLocation | None:
    if item.whole_body:
        return tool_config.body_location()
    if item.part == "body":
        try:
            place: tool_config.RequestLocation = tool_config.body_location(item.target)
        except ValueError as error:
            raise UnusablePart(f"the property '{excerpt(item.target)}' of its body cannot be filled: {error}") from None
        return None if name == item.target and method not in tool_config.BODYLESS else place
    by_name = name == item.target and (item.part == "path" or (item.part == "query" and method in tool_config.BODYLESS))
    return None if by_name else tool_config.RequestLocation(item.part, item.target)


Model = TypeVar("Model", bound=BaseModel)
_STEPS_PER_MODEL = 20
_STEPS_PER_FIELD = 10
_MAX_TITLE_LENGTH = 1_000
_KEYS_READ_ELSEWHERE = frozenset(
    (
        *("schema", "content", "example", "examples", "parameters", "requestBody", "responses", "callbacks"),
        *("externalDocs", "servers", "security", "tags"),
    )
)


def read_title(document: OpenApiDocument) -> str:
    """Return the title of a document, by default "api"."""
    info = document.content.get("info")
    title = info.get("title") if isinstance(info, dict) else None
    return title[:_MAX_TITLE_LENGTH] if isinstance(title, str) and title[:_MAX_TITLE_LENGTH].strip() else "api"


def read_part(document: OpenApiDocument, model: type[Model], raw: Mapping[str, Any], what: str) -> Model:
    """Parse a part of a document without its schemas; `what` names it in the error. Raises UnusablePart."""
    document.charge_entries(raw)
    read_here = (name for name in raw if not (name in _KEYS_READ_ELSEWHERE or name.startswith("x-")))
    own = {name: raw[name] for name in read_here}
    parts, characters = measure_size(own, document.steps.remaining // _STEPS_PER_FIELD)
    document.steps.consume(_STEPS_PER_MODEL + parts * _STEPS_PER_FIELD + characters // CHARS_PER_STEP)
    try:
        return model.model_validate(own)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        raise UnusablePart(
            f"{what} does not match the OpenAPI specification: {excerpt(place)}: {first['msg'][:200]}"
        ) from None


MAX_PARAMETERS = 500
_PART_BY_LOCATION: dict[str, tool_config.RequestPart] = {"path": "path", "query": "query", "header": "header"}
_IGNORED_HEADERS = frozenset(("accept", "content-type", "authorization"))
"""The specification requires ignoring these parameters: media types and security schemes describe them."""
_SEPARATORS = {"form": "commas", "simple": "commas", "spaceDelimited": "blanks", "pipeDelimited": "|"}
_SCALAR_TYPES = frozenset(("string", "integer", "number", "boolean", "null"))
Warn = Callable[[str], None]


@dataclass(frozen=True)
class RawParameter:
    """A parsed parameter and its raw object, which contains its schema."""

    parameter: Parameter
    raw: dict[str, Any]


def read_parameters(document: OpenApiDocument, *levels: Any) -> list[RawParameter]:
    """Read the parameters of a path and of its operation, whose declarations take precedence; raises UnusablePart."""
    found: dict[tuple[str, str], RawParameter] = {}
    for level in levels:
        if not isinstance(level, list | None) or len(level or ()) > MAX_PARAMETERS:
            raise UnusablePart(f"its parameters are not a list, or more than {MAX_PARAMETERS}")
        for entry in level or ():
            raw = document.resolve_object(entry)
            parameter = read_part(document, Parameter, raw, f"its parameter '{excerpt(raw.get('name', ''))}'")
            place, name = parameter.param_in.value, parameter.name
            # Header names ignore case.
            found[place, name.lower() if place == "header" else name] = RawParameter(parameter, raw)
    return list(found.values())


def parameter_fields(parameters: Iterable[RawParameter], schemas: SchemaConverter, warn: Warn) -> list[InputField]:
    """Build the fields of parameters; skip unsupported ones with a warning.

    Raises:
        UnusablePart: a required parameter is not supported.
    """
    fields = []
    for item in parameters:
        try:
            fields += _build_fields(item, schemas, warn)
        except _NotSendable as reason:
            required = item.parameter.required and item.parameter.param_in.value != "cookie"
            if required:
                raise UnusablePart(f"its {_label(item.parameter)} must be given, and {reason}") from None
            warn(f"the {_label(item.parameter)} is left out: {reason}")
    return fields


class _NotSendable(ValueError):
    """A parameter cannot be sent; the message is the reason."""


def _label(parameter: Parameter) -> str:
    return f"{parameter.param_in.value} parameter '{excerpt(parameter.name)}'"


def _build_fields(item: RawParameter, schemas: SchemaConverter, warn: Warn) -> list[InputField]:
    parameter = item.parameter
    part = _PART_BY_LOCATION.get(parameter.param_in.value)
    if part is None:
        raise _NotSendable("cookies are not sent")
    if part == "header" and not _is_sendable_header(parameter):
        return []
    if parameter.allowReserved:
        warn(f"the {_label(parameter)} allows reserved characters unencoded; they are percent-encoded")
    field = InputField(part, parameter.name, _parameter_schema(item, schemas), parameter.required)
    kinds = _value_types(field.schema)
    style = parameter.style or ("form" if part == "query" else "simple")
    exploded = parameter.explode if parameter.explode is not None else style == "form"
    if item.raw.get("content") or kinds <= _SCALAR_TYPES:
        if style in ("label", "matrix"):
            raise _NotSendable(f"values of the style {style} are not supported")
        return [field]
    if "object" in kinds:
        return _spread_object(field, style, exploded)
    return [field] if style == "form" and exploded else [_join_list(field, style)]


def _is_sendable_header(parameter: Parameter) -> bool:
    name = parameter.name.lower()
    if name in _IGNORED_HEADERS:
        return False
    if name == "cookie" or tool_config.is_connection_header(name) or not HEADER_NAME.fullmatch(name):
        raise _NotSendable("a caller cannot set a header of this name")
    return True


def _join_list(field: InputField, style: str) -> InputField:
    """Return a text field in place of a list in one value, because a ToolConfig cannot express how to join it."""
    if style not in _SEPARATORS:
        raise _NotSendable(f"lists of the style {excerpt(style)} are not supported")
    items = field.schema.get("items")
    choices = items.get("enum") if isinstance(items, dict) else None
    listed = f" Choices: {', '.join(map(str, choices[:50]))}." if isinstance(choices, list) else ""
    description = f"{field.schema.get('description', '')} Several values are separated by {_SEPARATORS[style]}.{listed}"
    return replace(field, schema={"type": "string", "description": description.strip()[:MAX_TEXT_LENGTH]})


def _spread_object(field: InputField, style: str, exploded: bool) -> list[InputField]:
    """Return a field for each property of an object that a query sends as separate parameters."""
    named = "{0}[{1}]" if style == "deepObject" else "{1}" if style == "form" and exploded else None
    properties = field.schema.get("properties")
    if named is None or field.part != "query" or not isinstance(properties, dict) or not properties:
        raise _NotSendable(f"objects of the style {excerpt(style)} without named properties are not supported")
    if not all(_value_types(inner) <= _SCALAR_TYPES for inner in properties.values()):
        raise _NotSendable("objects within objects are not supported in a query")
    required = field.schema.get("required", ()) if field.required else ()
    return [
        InputField("query", named.format(field.target, name), inner, name in required)
        for name, inner in properties.items()
    ]


def _value_types(schema: dict[str, Any]) -> set[str]:
    """Return the types that a value may have; text by default."""
    kinds = schema.get("type")
    found = set(kinds) if isinstance(kinds, list) else {kinds} if isinstance(kinds, str) else set()
    for keyword in ("anyOf", "oneOf", "allOf"):
        inner = schema.get(keyword)
        found |= {kind for form in inner if isinstance(form, dict) for kind in _value_types(form)} if inner else set()
    if "properties" in schema or "$ref" in schema:
        found.add("object")
    return found or {"string"}


def _parameter_schema(item: RawParameter, schemas: SchemaConverter) -> dict[str, Any]:
    content = item.raw.get("content")
    if content:
        media = next(iter(content.values())) if isinstance(content, dict) else None
        inner = schemas.convert(media["schema"]) if isinstance(media, dict) and "schema" in media else {}
        schema: dict[str, Any] = {"type": "string", "contentMediaType": next(iter(content)), "contentSchema": inner}
    else:
        schema = remove_null(schemas.convert(item.raw["schema"])) if "schema" in item.raw else {"type": "string"}
    if item.parameter.description:
        schema["description"] = item.parameter.description[:MAX_TEXT_LENGTH]
    if item.parameter.deprecated:
        schema["deprecated"] = True
    example = item.raw.get("example")
    if isinstance(example, str | int | float) and len(str(example)) <= 200:
        schema.setdefault("examples", [example])
    return schema


def remove_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from a parameter's schema: a request cannot contain it, and omitting the parameter means the same."""
    forms = schema.get("anyOf")
    others = [form for form in forms if form != {"type": "null"}] if isinstance(forms, list) else []
    if isinstance(forms, list) and 0 < len(others) < len(forms):
        around = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
        schema = {**others[0], **around} if len(others) == 1 else {**around, "anyOf": others}
    kinds = schema.get("type")
    choices = schema.get("enum", [...])
    if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1 and choices != [None]:
        others = [kind for kind in kinds if kind != "null"]
        schema = {**schema, "type": others[0] if len(others) == 1 else others}
        if "enum" in schema:
            schema["enum"] = [choice for choice in choices if choice is not None]
    if schema.get("default", ...) is None:
        schema = {keyword: value for keyword, value in schema.items() if keyword != "default"}
    return dict(schema)


_FLATTENABLE = ANNOTATION_KEYS | {"type", "properties", "required", "allOf", "additionalProperties"}
"""The keywords that an object may have to become flat fields; fields cannot express any others."""


def body_fields(document: OpenApiDocument, body: Any, schemas: SchemaConverter) -> tuple[list[InputField], str | None]:
    """Build the fields of a request body; also return the media type to send if it is not plain JSON.

    Raises:
        UnusablePart: it has no JSON form, or none that can be read.
    """
    raw = document.resolve_object(body)
    media_type, declared = json_content(document, raw)
    if media_type is None:
        content = raw.get("content")
        if not content:
            return [], None
        if not isinstance(content, dict):
            raise UnusablePart("the content of its body is not an object")
        kinds = ", ".join(excerpt(kind) for kind in list(content)[:3])
        raise UnusablePart(f"its body is {kinds}, and only JSON is sent")
    sent_as = media_type if json_media_rank(media_type) == 1 else None
    may_be_null = schemas.convert_body(declared)
    whole = remove_null(may_be_null)
    # A body that may be null is optional.
    required = raw.get("required") is True and whole == may_be_null
    flat = _flatten_object(whole)
    if flat is not None and (required or not flat[1]):
        properties, needed = flat
        names = (*properties, *sorted(needed - properties.keys()))
        return [InputField("body", name, properties.get(name, {}), name in needed) for name in names], sent_as
    if isinstance(description := raw.get("description"), str) and "description" not in whole:
        whole["description"] = description[:MAX_TEXT_LENGTH]
    return [InputField("body", "body", whole, required, whole_body=True)], sent_as


def _flatten_object(schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]] | None:
    """Return the properties of an object and its `allOf`, and the required ones; None if it has other constraints."""
    properties, parts = dict(schema.get("properties", {})), schema.get("allOf", [])
    others = schema.get("additionalProperties", True)
    if schema.keys() - _FLATTENABLE or schema.get("type", "object") != "object" or others not in (True, False, {}):
        return None
    required = set(schema.get("required", ()))
    for part in parts:
        inner = _flatten_object(part)
        if inner is None:
            return None
        for name, prop in inner[0].items():
            known = properties.setdefault(name, prop)
            properties[name] = known if known == prop else {"allOf": [known, prop]}
        required |= inner[1]
    return (properties, required) if properties or parts or others is False else None


MAX_ALTERNATIVES = 50
MAX_SLUG_LENGTH = 40
MAX_NAME_LENGTH = 1_000
_TOO_MANY_CREDENTIALS = "it requires more credentials at once than a tool sends"
_WORD_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_VARIABLE_CHARS = re.compile(r"[^A-Z0-9]+")


@dataclass(frozen=True)
class Security:
    """The credentials of an operation's requests: an `auth` and further headers."""

    auth: tool_config.ApiAuth = field(default_factory=tool_config.ApiAuth)
    headers: dict[str, str] = field(default_factory=dict)


def choose_security(document: OpenApiDocument, requirements: Any, warn: Warn) -> Security:
    """Return the first alternative that a tool can fulfil.

    If it has several schemes, one becomes the `auth` and the others become headers.

    Raises:
        UnusablePart: a tool can fulfil none of them.
    """
    if not requirements:
        return Security()
    if not isinstance(requirements, list):
        raise UnusablePart("its security requirements are not a list")
    reasons = []
    for alternative in requirements[:MAX_ALTERNATIVES]:
        try:
            return _build_security(document, alternative, warn)
        except UnusablePart as error:
            reasons.append(str(error))
    raise UnusablePart(f"none of its security requirements can be fulfilled: {'; '.join(dict.fromkeys(reasons))}"[:400])


def variable_slug(text: str, default: str) -> str:
    """Return a text as a part of an environment variable's name."""
    return (
        _NOT_VARIABLE_CHARS.sub("_", _WORD_BREAKS.sub("_", text[:MAX_NAME_LENGTH]).upper())
        .strip("_")[:MAX_SLUG_LENGTH]
        .rstrip("_")
        or default
    )


def _build_security(document: OpenApiDocument, alternative: Any, warn: Warn) -> Security:
    if not isinstance(alternative, dict):
        raise UnusablePart("a security requirement is not an object")
    if len(alternative) > tool_config.MAX_HEADERS:
        raise UnusablePart(_TOO_MANY_CREDENTIALS)
    credentials = [_build_credential(document, name, warn) for name in alternative]
    if not credentials:
        return Security()
    # Only the `auth` can be a query parameter or Basic credentials.
    first, *others = sorted(credentials, key=lambda auth: auth.type != "basic" and auth.location != "query")
    if any(auth.type == "basic" or auth.location == "query" for auth in others):
        raise UnusablePart(_TOO_MANY_CREDENTIALS)
    headers = {auth.name or "Authorization": f"{'' if auth.name else 'Bearer '}{auth.value}" for auth in others}
    taken = {"?" if auth.location == "query" else (auth.name or "Authorization").lower() for auth in credentials}
    if len(taken) < len(credentials):
        raise UnusablePart("it requires two credentials in the same header")
    return Security(first, headers)


def _build_credential(document: OpenApiDocument, name: str, warn: Warn) -> tool_config.ApiAuth:
    """Return the auth for a security scheme, which refers to an environment variable."""
    components = document.content.get("components")
    declared = components.get("securitySchemes") if isinstance(components, dict) else None
    if not isinstance(declared, dict) or name not in declared:
        raise UnusablePart(f"the security scheme {excerpt(name)} is not in the document")
    scheme = read_part(document, SecurityScheme, document.resolve_object(declared[name]), "its security scheme")
    variable = f"TOOL_{variable_slug(read_title(document), 'API')}_{variable_slug(name, 'KEY')}"
    value = f"{{env:{variable}}}"
    form = (scheme.type, (scheme.security_scheme_in or scheme.scheme or "").lower())
    match form:
        case ("apiKey", "header" | "query" as location) if scheme.name:
            try:
                return tool_config.ApiAuth(type="api_key", location=location, name=scheme.name, value=value)
            except ValidationError as error:
                reason = f"the API key '{excerpt(scheme.name)}' cannot be sent: {error.errors()[0]['msg']}"
                raise UnusablePart(reason) from None
        case ("http", "bearer"):
            return tool_config.ApiAuth(type="bearer", value=value)
        case ("oauth2" | "openIdConnect", _):
            warn(f"the scheme {excerpt(name)} is {scheme.type}: put a token into {variable}; Toolweave requests none")
            return tool_config.ApiAuth(type="bearer", value=value)
        case ("http", "basic"):
            return tool_config.ApiAuth(type="basic", value=value)
    raise UnusablePart(
        f"the security scheme {excerpt(name)} ({excerpt(' '.join(filter(None, form)))}) is of an unsupported kind"
    )


MAX_URL_LENGTH = 2_000
_URL_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def read_base_url(document: OpenApiDocument, levels: list[Any], document_url: str | None) -> str:
    """Return the URL of the first server at the first level that has servers, with its variables' defaults.

    Args:
        document: the document, whose steps are consumed.
        levels: the `servers` of the operation, of its path and of the document; each may be None.
        document_url: the URL against which a relative URL is resolved.

    Raises:
        UnusablePart: there is no URL, it is relative without a `document_url`, or it is not an http(s) URL.
    """
    servers = next((level for level in levels if level), [{"url": "/"}])
    if not isinstance(servers, list):
        raise UnusablePart("its servers are not a list")
    if not isinstance(servers[0], dict):
        raise UnusablePart("its server is not an object")
    server = read_part(document, Server, servers[0], "its server")
    url = server.url.strip()
    for name, variable in (server.variables or {}).items():
        url = url.replace(f"{{{name}}}", variable.default)
        if len(url) > MAX_URL_LENGTH:
            raise UnusablePart("the URL of its server is too long")
    if document_url is None and not _URL_SCHEME.match(url):
        raise UnusablePart(f"its server '{excerpt(url)}' is a relative URL; give the base_url of the API")
    try:
        if document_url is not None and not _URL_SCHEME.match(url):
            # A URL that begins with // contains its host, even an empty one.
            is_without_scheme = url.startswith("//")
            url = document_url.partition("//")[0] + url if is_without_scheme else urljoin(document_url, url)
        parse_target(url)
    except (OutboundRefused, ValueError) as error:
        raise UnusablePart(f"its server {excerpt(url)} cannot be called: {error}") from None
    return url
