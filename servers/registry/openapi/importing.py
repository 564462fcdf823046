"""Create ToolConfigs from the operations of an OpenAPI document: `POST /tools/import/openapi` (W-01)."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import translate
from functools import partial
from typing import Any, TypeVar

from openapi_pydantic import Operation, Parameter
from pydantic import ValidationError
from typing_extensions import TypedDict

from toolweave.errors import DocumentRefused
from toolweave.schema import check_size
from toolweave.servers.registry.openapi import requests, schemas
from toolweave.servers.registry.openapi.document import read_document
from toolweave.tool_config import BODYLESS, MAX_PATH_CHARS, PLACEHOLDER, RESERVED_IDS, ApiAuth, Method, ToolConfig

T = TypeVar("T")
MAX_OPERATIONS = 2_000
MAX_REPORTED = 2_000
MAX_REASON_LENGTH = 500
MAX_ID_LENGTH = 64
MAX_NAME_LENGTH = 2_000
_METHODS: dict[str, Method] = {name.lower(): name for name in ("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH")}
_UNSUPPORTED_METHODS = ("options", "trace", "query")
_NOT_ID_CHARS = re.compile(r"[^A-Za-z0-9_-]+")
MAX_TITLE_LENGTH = 200
MAX_DESCRIPTION_LENGTH = 10_000
_WORD_BREAKS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_EMPTY_DESCRIPTION = re.compile(
    r"(?:(?:a |the )?(?:ok|success(?:ful)?|response|operation|request|default|done)[\s.!]*)*", re.IGNORECASE
)


def operation_title(operation: Operation, method: str, path: str) -> str:
    """Return the operation's summary, else its id as words, else method and path."""
    summary = " ".join((operation.summary or "")[:MAX_DESCRIPTION_LENGTH].split())
    words = " ".join(_WORD_BREAKS.sub(" ", (operation.operationId or "")[:MAX_DESCRIPTION_LENGTH]).split())
    title = summary or (words[:1].upper() + words[1:].lower()) or f"{method} {path}"
    return title[:MAX_TITLE_LENGTH]


def operation_description(operation: Operation, title: str, returned: str) -> str:
    """Return summary, description and the response's description, without empty phrases such as "OK"."""
    own_texts = (operation.summary, operation.description)
    texts = [text for text in own_texts if text and text[:MAX_DESCRIPTION_LENGTH].strip()] or [title]
    if not _EMPTY_DESCRIPTION.fullmatch(returned.strip()[:100]):
        texts.append(f"Returns: {returned}")
    if operation.deprecated:
        texts.append("Deprecated: the API advises not to use it.")
    return "\n\n".join(text[:MAX_DESCRIPTION_LENGTH].strip() for text in texts)[:MAX_DESCRIPTION_LENGTH]


_STEPS_PER_PLACEHOLDER = 20
_PLACEHOLDER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class ImportOptions:
    """The options of an import.

    Args:
        base_url: the API's URL, in place of the document's servers.
        document_url: the document's URL, which relative server URLs are resolved against.
        prefix: the beginning of every tool_id.
        tags: import only operations with one of these tags; all if empty.
        operations: import only operations whose id or "METHOD /path" matches one of these globs; all if empty.
        auth: the authentication of every tool, in place of the document's security.
    """

    base_url: str | None = None
    document_url: str | None = None
    prefix: str = ""
    tags: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    auth: ApiAuth | None = None


@dataclass
class OpenApiOperation:
    """An operation with its raw objects, and its document with the operation's budget."""

    method: Method
    path: str
    path_item: dict[str, Any]
    raw: dict[str, Any]
    document: schemas.OpenApiDocument
    options: ImportOptions
    warnings: list[str] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Return the operation's name for reports."""
        return f"{self.method} {schemas.excerpt(self.path)}"

    def build_tool(self, tool_id: str) -> ToolConfig:
        """Build the operation's tool and append to its `warnings`.

        Raises:
            UnusablePart: a ToolConfig cannot call the operation; the message is the reason.
        """
        if len(self.path.partition("#")[0]) > MAX_PATH_CHARS:
            raise schemas.UnusablePart(f"its path has more than {MAX_PATH_CHARS} characters")
        operation = requests.read_part(self.document, Operation, self.raw, "it")
        if operation.deprecated:
            self.warnings.append("it is deprecated")
        security = self._choose_security()
        servers = [level.get("servers") for level in (self.raw, self.path_item, self.document.content)]
        server_url = self.options.base_url or requests.read_base_url(self.document, servers, self.options.document_url)
        declared = requests.read_parameters(self.document, self.path_item.get("parameters"), self.raw.get("parameters"))
        parameters = [item for item in declared if not _is_credential(item, security)]
        self.document.steps.consume(_STEPS_PER_PLACEHOLDER * self.path.count("{"))
        path, parameters = _fill_placeholders(self.path.partition("#")[0], parameters, self.warnings.append)
        input_schema, mappings, media_type = self._convert_schemas("readOnly", partial(self._build_input, parameters))
        output, returned = self._build_output()
        headers = {**security.headers, "Content-Type": media_type} if media_type else security.headers
        title = operation_title(operation, self.method, self.path)
        config = {
            "tool_id": tool_id,
            "name": title,
            "description": operation_description(operation, title, returned),
            "api": {
                "base_url": server_url,
                "path": path,
                "method": self.method,
                "auth": security.auth,
                "headers": headers,
            },
            "input_schema": input_schema,
            "output_schema": output,
            "field_mappings": {"request": mappings},
            "tags": [tag for tag in _operation_tags(self.raw, self.document) if tag],
        }
        return _build_config(config)

    def _choose_security(self) -> requests.Security:
        if self.options.auth is not None:
            return requests.Security(self.options.auth)
        own = self.raw.get("security")
        required = self.document.content.get("security") if own is None else own
        return requests.choose_security(self.document, required, self.warnings.append)

    def _convert_schemas(self, omitted: schemas.OmittedFlag, build: Callable[[schemas.SchemaConverter], T]) -> T:
        """Build a value from schemas with inlined references, or if it gets too large, with references."""
        try:
            return build(schemas.SchemaConverter(self.document, omitted, inline=True))
        except schemas.OversizedSchema:
            return build(schemas.SchemaConverter(self.document, omitted, inline=False))

    def _build_input(
        self, parameters: list[requests.RawParameter], converter: schemas.SchemaConverter
    ) -> tuple[dict[str, Any], dict[str, str], str | None]:
        fields = requests.parameter_fields(parameters, converter, self.warnings.append)
        media_type = None
        if (raw := self.raw.get("requestBody")) is not None:
            if self.method not in BODYLESS:
                body, media_type = requests.body_fields(self.document, raw, converter)
                fields += body
            elif self.document.resolve_object(raw).get("required") is True:
                raise schemas.UnusablePart(f"it requires a body, and none is sent with {self.method}")
            else:
                self.warnings.append(f"its body is left out: none is sent with {self.method}")
        schema, mappings = requests.build_flat_input(fields, self.method)
        if definitions := converter.definitions():
            schema["$defs"] = definitions
        return schema, mappings, media_type

    def _build_output(self) -> tuple[dict[str, Any], str]:
        try:
            response = find_success_response(self.document, self.raw.get("responses"))
            described = response.get("description")
            returned = described[:MAX_DESCRIPTION_LENGTH] if isinstance(described, str) else ""
            media_type, raw = schemas.json_content(self.document, response)
            schema = self._convert_schemas("writeOnly", partial(_standalone_schema, raw)) if media_type else {}
            check_size(schema)
        except schemas.ExternalReference:
            raise
        except ValueError as reason:
            self.warnings.append(f"it has no output_schema: {reason}")
            return {}, ""
        return schema, returned


def find_success_response(document: schemas.OpenApiDocument, responses: Any) -> dict[str, Any]:
    """Return the first success response with JSON, else the first success response, else an empty object.

    Raises:
        UnusablePart: the responses cannot be read.
    """
    if not isinstance(responses, dict):
        return {}
    document.charge_entries(responses)
    codes = sorted(code for code in responses if code[:1] == "2" and len(code) == 3)
    found = [document.resolve_object(responses[code]) for code in codes]
    with_json = (response for response in found if schemas.json_content(document, response)[0])
    return next(with_json, found[0] if found else {})


def _standalone_schema(raw: Any, converter: schemas.SchemaConverter) -> dict[str, Any]:
    schema = converter.convert_body(raw)
    definitions = converter.definitions()
    return {**schema, "$defs": definitions} if definitions else schema


def _operation_tags(raw: Mapping[str, Any], document: schemas.OpenApiDocument) -> list[str]:
    tags = raw.get("tags")
    if not isinstance(tags, list):
        return []
    document.charge_entries(tags)
    return [tag for tag in tags if isinstance(tag, str)]


def _is_credential(item: requests.RawParameter, security: requests.Security) -> bool:
    place, name = item.parameter.param_in.value, item.parameter.name.lower()
    auth = security.auth
    own = {("header", header.lower()) for header in security.headers}
    if auth.type == "api_key" and auth.name:
        own.add((auth.location, auth.name.lower()))
    return (place, name) in own


def _fill_placeholders(
    path: str, parameters: list[requests.RawParameter], warn: requests.Warn
) -> tuple[str, list[requests.RawParameter]]:
    """Return the path with placeholder names that a ToolConfig accepts, and exactly one parameter for each of them."""
    declared = {item.parameter.name: item for item in parameters if item.parameter.param_in.value == "path"}
    others = [item for item in parameters if item.parameter.param_in.value != "path"]
    names = list(dict.fromkeys(PLACEHOLDER.findall(path)))
    for name in declared.keys() - set(names):
        warn(f"the path parameter '{schemas.excerpt(name)}' is left out: the path has no such placeholder")
    matched = []
    for name in names:
        item = declared.get(name)
        if item is None:
            warn(
                f"the placeholder '{schemas.excerpt(name)}' of its path is not a declared parameter; "
                "it accepts any text"
            )
            parameter = Parameter.model_validate({"name": name, "in": "path"})
            item = requests.RawParameter(parameter, {"schema": {"type": "string", "minLength": 1}})
        own_name = name if not name or _PLACEHOLDER_NAME.fullmatch(name) else requests.safe_name(name)
        matched.append(replace(item, parameter=item.parameter.model_copy(update={"name": own_name, "required": True})))
        path = path.replace(f"{{{name}}}", f"{{{own_name}}}")
    return path, [*matched, *others]


def _build_config(config: dict[str, Any]) -> ToolConfig:
    try:
        # Without validating the schemas again: SchemaConverter has, and it takes longer than everything else here.
        return ToolConfig.from_stored(config)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = "".join(f"{step}." for step in problem["loc"]).removesuffix(".")
    message = problem["msg"].removeprefix("Value error, ")
    raise schemas.UnusablePart(f"{place}: {message}"[:400] if place else message[:400]) from None


class SkippedOperation(TypedDict):
    """An operation, such as `GET /pets/{id}`, without a tool, and the reason."""

    operation: str
    reason: str


@dataclass(frozen=True)
class ImportResult:
    """The result of an import. `tools` are not stored yet; each warning begins with its operation.

    `function_ids` has a shorter id for each tool whose operationId FastAPI has made of a function's name.
    """

    tools: list[ToolConfig]
    skipped: list[SkippedOperation]
    warnings: list[str]
    function_ids: dict[str, str]


def readable_tools(imported: ImportResult, registered: Mapping[str, ToolConfig]) -> list[ToolConfig]:
    """Return the tools with their `function_ids` where these are unique; a registered operation keeps its id (W-01).

    `registered` has the registered ones among both kinds of ids.
    """
    names = imported.function_ids
    taken = (*RESERVED_IDS, *(tool.tool_id for tool in imported.tools), *names.values())
    counts = Counter(tool_id.lower() for tool_id in taken)

    def choose_id(tool: ToolConfig) -> str:
        name = names.get(tool.tool_id, "")
        if same := registered.get(name):
            is_free = (same.api.method, same.api.path) == (tool.api.method, tool.api.path)
        else:
            is_free = counts[name.lower()] == 1 and tool.tool_id not in registered
        return name if is_free else tool.tool_id

    return [tool.model_copy(update={"tool_id": choose_id(tool)}) for tool in imported.tools]


def import_openapi(document: bytes | str | Mapping[str, Any], options: ImportOptions | None = None) -> ImportResult:
    """Create a ToolConfig from each usable operation; an unusable operation does not affect the others.

    It fetches nothing. The largest documents take several seconds of CPU: do not call it on an event loop.

    Raises:
        DocumentRefused: the document cannot be read, or the import needs more than `MAX_STEPS` steps.
    """
    return _Importer(schemas.OpenApiDocument(read_document(document)), options or ImportOptions()).run()


class _Importer:
    def __init__(self, document: schemas.OpenApiDocument, options: ImportOptions) -> None:
        self._document = document
        self._options = options
        self._tools: dict[str, ToolConfig] = {}
        self._function_ids: dict[str, str] = {}
        self._skipped: list[SkippedOperation] = []
        self._warnings: dict[str, None] = {}
        self._numbers: dict[str, int] = {}
        self._globs = [re.compile(translate(glob)) for glob in options.operations]
        self._glob_length = sum(map(len, options.operations))
        self._current = "its paths"

    def run(self) -> ImportResult:
        try:
            return self._import_all()
        except schemas.StepsExhausted:
            raise DocumentRefused(
                f"The import takes more than {schemas.MAX_STEPS:,} steps, so far up to {self._current}: the document's"
                " references expand too far. Import fewer operations at once, chosen by `operations` or `tags`,"
                " or let them refer to less; nothing was stored."
            ) from None

    def _import_all(self) -> ImportResult:
        left_out = 0
        for count, operation in enumerate(filter(self._is_selected, self._operations())):
            if count >= MAX_OPERATIONS:
                left_out += 1
            else:
                self._import_operation(operation)
        if left_out:
            self._warn(
                f"{left_out} operations after the first {MAX_OPERATIONS} are left out: choose by operations or tags"
            )
        if not self._tools and not self._skipped:
            has_selection = self._options.tags or self._options.operations
            self._warn("the document has no operation" + (" that you selected" if has_selection else ""))
        return ImportResult(list(self._tools.values()), self._skipped, list(self._warnings), self._function_ids)

    def _operations(self) -> Iterator[OpenApiOperation]:
        for path, entry in self._document.content.get("paths", {}).items():
            if path.startswith("x-"):
                continue
            try:
                path_item = self._document.resolve_object(entry)
                self._document.charge_entries(path_item)
            except schemas.UnusablePart as reason:
                self._skip(schemas.excerpt(path), str(reason))
                continue
            for name, raw in path_item.items():
                if name in _METHODS:
                    own = raw if isinstance(raw, dict) else {}
                    document = self._document.for_operation()
                    yield OpenApiOperation(_METHODS[name], path, path_item, own, document, self._options)
                elif name in _UNSUPPORTED_METHODS:
                    self._skip(f"{name.upper()} {schemas.excerpt(path)}", f"tools do not call {name.upper()}")

    def _is_selected(self, operation: OpenApiOperation) -> bool:
        if self._globs and not self._matches_name(operation):
            return False
        tags = self._options.tags
        return not tags or not set(tags).isdisjoint(_operation_tags(operation.raw, self._document))

    def _matches_name(self, operation: OpenApiOperation) -> bool:
        operation_id = operation.raw.get("operationId", "")
        names = [
            f"{operation.method} {operation.path}"[:MAX_NAME_LENGTH],
            operation_id[:MAX_NAME_LENGTH] if isinstance(operation_id, str) else "",
        ]
        self._document.steps.consume(len(self._globs) + self._glob_length * sum(map(len, names)) // 1_000)
        return any(glob.match(name) for glob in self._globs for name in names)

    def _import_operation(self, operation: OpenApiOperation) -> None:
        self._current = operation.label
        try:
            tool = operation.build_tool(self._free_id(operation))
        except schemas.UnusablePart as reason:
            self._skip(operation.label, str(reason))
            return
        self._tools[tool.tool_id] = tool
        if name := _function_name(operation):
            self._function_ids[tool.tool_id] = f"{self._options.prefix}{name}"[:MAX_ID_LENGTH]
        for warning in operation.warnings:
            self._warn(f"{operation.label}: {warning}")

    def _free_id(self, operation: OpenApiOperation) -> str:
        operation_id = operation.raw.get("operationId")
        slug = _slug(operation_id) if isinstance(operation_id, str) else ""
        slug = slug or _slug(f"{operation.method.lower()} {operation.path}").rstrip("_-")
        if f"{self._options.prefix}{slug}".lower() in RESERVED_IDS:
            slug = f"{slug}_{operation.method.lower()}"
        free = first = f"{self._options.prefix}{slug}"[:MAX_ID_LENGTH]
        number = self._numbers.get(first, 1)
        while free in self._tools:
            number += 1
            free = f"{self._options.prefix}{slug}"[: MAX_ID_LENGTH - len(str(number)) - 1] + f"_{number}"
        self._numbers[first] = max(1, number - 1)
        return free

    def _skip(self, operation: str, reason: str) -> None:
        if len(self._skipped) < MAX_REPORTED:
            self._skipped.append({"operation": operation, "reason": reason[:MAX_REASON_LENGTH]})
        else:
            self._warn(f"more than {MAX_REPORTED} operations are left out; not all of them are named")

    def _warn(self, warning: str) -> None:
        if len(self._warnings) < MAX_REPORTED:
            self._warnings[warning[:MAX_REASON_LENGTH]] = None


def _function_name(operation: OpenApiOperation) -> str:
    """Return `get_pet` for FastAPI's operationId `get_pet_pets__pet_id__get`; an empty text for any other."""
    operation_id = operation.raw.get("operationId")
    ending = re.sub(r"\W", "_", f"{operation.path}_{operation.method.lower()}")
    name = operation_id.removesuffix(ending) if isinstance(operation_id, str) else ""
    return "" if name == operation_id else _slug(name)


def _slug(text: str) -> str:
    return _NOT_ID_CHARS.sub("_", text[:MAX_NAME_LENGTH]).lstrip("_-")[:MAX_ID_LENGTH]
