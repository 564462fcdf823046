"""Turn one operation of an OpenAPI document into a ToolConfig (W-01): its address, credentials, input and output.

Documents hold no credentials; a tool refers to environment variables named after the document's title and the scheme:
`{env:TOOL_<TITLE>_<SCHEME>}`. The title is the author's choice: an operator who has several APIs binds each variable to
its host (`TOOLWEAVE_TOOL_ENV`, W-08).
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import urljoin

from openapi_pydantic import Operation, Parameter, SecurityScheme, Server
from pydantic import ValidationError

from toolweave.errors import OutboundRefused
from toolweave.outbound_urls import read_target
from toolweave.servers.registry.openapi.requests import (
    RawParameter,
    Warn,
    body_fields,
    declared_parameters,
    flat_input,
    json_content,
    parameter_fields,
    read_part,
    read_title,
    safe_name,
)
from toolweave.servers.registry.openapi.schemas import (
    ExternalReference,
    LeftOut,
    OpenApiDocument,
    SchemaBudget,
    SchemaConversion,
    TooLarge,
    UnusablePart,
    shown,
)
from toolweave.tool_config import LONGEST_PATH, MOST_HEADERS, PLACEHOLDER, WITHOUT_BODY, ApiAuth, Method, ToolConfig

MOST_ALTERNATIVES = 50
LONGEST_SLUG = 40
LONGEST_NAME = 1_000
_TOO_MANY = "it wants more credentials at once than a tool sends"
_WORD_BEGINS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_IN_VARIABLES = re.compile(r"[^A-Z0-9]+")
Kind = Literal["header", "query", "bearer", "basic"]
_Input = tuple[dict[str, Any], dict[str, str]]


@dataclass(frozen=True)
class Shown:
    """How one security scheme is fulfilled: the kind of credential, its name, and the variable that holds it."""

    kind: Kind
    name: str
    variable: str

    @property
    def value(self) -> str:
        """Return the reference to the credential."""
        return f"{{env:{self.variable}}}"

    def as_auth(self) -> ApiAuth:
        """Return the credential as a tool's `auth`; raises UnusablePart for a name that cannot be one."""
        if self.kind in ("bearer", "basic"):
            return ApiAuth(type="bearer" if self.kind == "bearer" else "basic", value=self.value)
        location: Literal["header", "query"] = "query" if self.kind == "query" else "header"
        try:
            return ApiAuth(type="api_key", location=location, name=self.name, value=self.value)
        except ValidationError as error:
            raise UnusablePart(f"the API key '{shown(self.name)}' cannot be sent: {error.errors()[0]['msg']}") from None

    def as_header(self) -> tuple[str, str]:
        """Return the credential as a header beside the `auth`."""
        return ("Authorization", f"Bearer {self.value}") if self.kind == "bearer" else (self.name, self.value)


@dataclass(frozen=True)
class Security:
    """What an operation sends to show who asks."""

    auth: ApiAuth = field(default_factory=ApiAuth)
    headers: dict[str, str] = field(default_factory=dict)


def security_of(document: OpenApiDocument, requirements: Any, warn: Warn) -> Security:
    """Choose the first of the alternatives that can be fulfilled.

    Of schemes that belong together one becomes the `auth`; the others become headers.

    Raises:
        UnusablePart: none can be fulfilled.
    """
    if not requirements:
        return Security()
    if not isinstance(requirements, list):
        raise UnusablePart("its security requirements are no list")
    reasons = []
    for alternative in requirements[:MOST_ALTERNATIVES]:
        try:
            return _fulfilled(document, alternative, warn)
        except UnusablePart as error:
            reasons.append(str(error))
    raise UnusablePart(f"none of its security requirements can be fulfilled: {'; '.join(dict.fromkeys(reasons))}"[:400])


def slug(text: str, otherwise: str) -> str:
    """Write a text as a part of a variable's name."""
    return (
        _NOT_IN_VARIABLES.sub("_", _WORD_BEGINS.sub("_", text[:LONGEST_NAME]).upper())
        .strip("_")[:LONGEST_SLUG]
        .rstrip("_")
        or otherwise
    )


def _fulfilled(document: OpenApiDocument, alternative: Any, warn: Warn) -> Security:
    if not isinstance(alternative, dict):
        raise UnusablePart("a security requirement is no object")
    if len(alternative) > MOST_HEADERS:
        raise UnusablePart(_TOO_MANY)
    schemes = [_shown(document, name, warn) for name in alternative]
    # Only the auth can go to the query or be encoded as "basic" wants it.
    schemes.sort(key=lambda one: one.kind not in ("query", "basic"))
    if not schemes:
        return Security()
    if any(one.kind in ("query", "basic") for one in schemes[1:]):
        raise UnusablePart(_TOO_MANY)
    headers = dict(one.as_header() for one in schemes[1:])
    taken = [name.lower() for name in headers] + [_header(schemes[0])]
    if len(set(taken)) < len(schemes):
        raise UnusablePart("it wants two credentials in the same header")
    return Security(schemes[0].as_auth(), headers)


def _header(one: Shown) -> str:
    return "authorization" if one.kind in ("bearer", "basic") else one.name.lower() if one.kind == "header" else "?"


def _shown(document: OpenApiDocument, name: str, warn: Warn) -> Shown:
    components = document.content.get("components")
    declared = components.get("securitySchemes") if isinstance(components, dict) else None
    if not isinstance(declared, dict) or name not in declared:
        raise UnusablePart(f"the security scheme {shown(name)} is not in the document")
    scheme = read_part(document, SecurityScheme, document.follow(declared[name]), "its security scheme")
    variable = f"TOOL_{slug(read_title(document), 'API')}_{slug(name, 'KEY')}"
    kind = _kind(scheme, name)
    if scheme.type in ("oauth2", "openIdConnect"):
        warn(f"the scheme {shown(name)} is {scheme.type}: put a token for it into {variable}; none is asked for")
    return Shown(kind, scheme.name or "", variable)


def _kind(scheme: SecurityScheme, name: str) -> Kind:
    form = (scheme.type, (scheme.security_scheme_in or scheme.scheme or "").lower())
    match form:
        case ("apiKey", "header") if scheme.name:
            return "header"
        case ("apiKey", "query") if scheme.name:
            return "query"
        case ("http", "bearer") | ("oauth2", _) | ("openIdConnect", _):
            return "bearer"
        case ("http", "basic"):
            return "basic"
    raise UnusablePart(
        f"the security scheme {shown(name)} ({shown(' '.join(filter(None, form)))}) is of a kind that is not sent"
    )


LONGEST_URL = 2_000
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def base_url(document: OpenApiDocument, levels: list[Any], document_url: str | None) -> str:
    """Return the URL of the first server of the first level that has one, its variables filled by their defaults.

    Args:
        document: its steps are taken.
        levels: the `servers` of the operation, its path and the document, each None where there are none.
        document_url: what a relative URL is relative to.

    Raises:
        UnusablePart: there is none, or it is relative to an unknown place, or no http(s) URL.
    """
    servers = next((level for level in levels if level), [{"url": "/"}])
    if not isinstance(servers, list):
        raise UnusablePart("its servers are no list")
    if not isinstance(servers[0], dict):
        raise UnusablePart("its server is no object")
    url = _filled(read_part(document, Server, servers[0], "its server"))
    if document_url is None and not _SCHEME.match(url):
        raise UnusablePart(f"its server '{shown(url)}' is relative to nothing known; give the base_url of the API")
    try:
        url = url if _SCHEME.match(url) else _absolute(url, document_url or "")
        read_target(url)
    except (OutboundRefused, ValueError) as error:
        raise UnusablePart(f"its server {shown(url)} cannot be called: {error}") from None
    return url


def _absolute(url: str, document_url: str) -> str:
    # A URL that begins with // names its host, also where that is empty.
    return document_url.partition("//")[0] + url if url.startswith("//") else urljoin(document_url, url)


def _filled(server: Server) -> str:
    url = server.url.strip()
    for name, variable in (server.variables or {}).items():
        url = url.replace(f"{{{name}}}", variable.default)
        if len(url) > LONGEST_URL:
            raise UnusablePart("the URL of its server is too long")
    return url


LONGEST_TITLE = 200
LONGEST_DESCRIPTION = 10_000
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[\W_]+")
_SAYS_NOTHING = re.compile(
    r"(?:(?:a |the )?(?:ok|success(?:ful)?|response|operation|request|default|done)[\s.!]*)*", re.IGNORECASE
)


def title_of(operation: Operation, method: str, path: str) -> str:
    """Return the summary, else the operation's id in words, else method and path."""
    summary = " ".join((operation.summary or "")[:LONGEST_DESCRIPTION].split())
    words = " ".join(_WORD_ENDS.sub(" ", (operation.operationId or "")[:LONGEST_DESCRIPTION]).split())
    title = summary or (words[:1].upper() + words[1:].lower()) or f"{method} {path}"
    return title[:LONGEST_TITLE]


def description_of(operation: Operation, method: str, path: str, returned: str) -> str:
    """Join summary, description and what is returned, where these say something."""
    texts = (operation.summary, operation.description)
    summary, described = ((text or "")[:LONGEST_DESCRIPTION].strip() for text in texts)
    parts = [] if summary.rstrip(".") in described else [_sentence(summary)]
    parts.append(described)
    if not summary and not described:
        parts.append(_sentence(title_of(operation, method, path)))
    if not _SAYS_NOTHING.fullmatch(returned.strip()[:100]):
        parts.append(f"Returns: {_sentence(returned.strip())}")
    if operation.deprecated:
        parts.append("Deprecated: the API asks not to use it any more.")
    return "\n\n".join(part for part in parts if part)[:LONGEST_DESCRIPTION]


def _sentence(text: str) -> str:
    return text if not text or text.endswith((".", "!", "?")) else f"{text}."


WRITTEN_OUT_PARTS = 600
"""How large a schema may get by writing references out; larger ones keep them."""
_STEPS_OF_PLACEHOLDER = 20
_PLACEHOLDER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True)
class Site:
    """Where an operation stands: the raw objects around it."""

    method: Method
    path: str
    path_item: dict[str, Any]
    raw: dict[str, Any]

    @property
    def label(self) -> str:
        """Name the operation in reports."""
        return f"{self.method} {shown(self.path)}"


@dataclass
class Conversion:
    """What is the same for all operations of one import."""

    document: OpenApiDocument
    base_url: str | None = None
    document_url: str | None = None
    auth: ApiAuth | None = None
    input_budget: SchemaBudget = field(default_factory=SchemaBudget)
    output_budget: SchemaBudget = field(default_factory=SchemaBudget)

    def tool(self, tool_id: str, site: Site, warn: Warn) -> ToolConfig:
        """Make the tool of an operation.

        Raises:
            UnusablePart: it cannot be called by a ToolConfig; the text is the reason.
        """
        return replace(self, document=self.document.for_operation()).tool_within_steps(tool_id, site, warn)

    def tool_within_steps(self, tool_id: str, site: Site, warn: Warn) -> ToolConfig:
        """Make the tool of an operation within the steps that `document` has left; raises like `tool`."""
        if len(site.path.partition("#")[0]) > LONGEST_PATH:
            raise UnusablePart(f"its path has more than {LONGEST_PATH} characters")
        operation = read_part(self.document, Operation, site.raw, "it")
        if operation.deprecated:
            warn("it is deprecated")
        security = self._security(site, warn)
        called = self.base_url or base_url(self.document, self._servers(site), self.document_url)
        parameters = [
            one
            for one in declared_parameters(self.document, site.path_item.get("parameters"), site.raw.get("parameters"))
            if not _shows_who_asks(one, security)
        ]
        self.document.steps.take(_STEPS_OF_PLACEHOLDER * site.path.count("{"))
        path, parameters = _declared_placeholders(site.path.partition("#")[0], parameters, warn)
        (input_schema, mappings), media_type = self._input(site, parameters, warn)
        output, returned = self._output(site, warn)
        headers = {**security.headers, "Content-Type": media_type} if media_type else security.headers
        config = {
            "tool_id": tool_id,
            "name": title_of(operation, site.method, site.path),
            "description": description_of(operation, site.method, site.path, returned),
            "api": {
                "base_url": called,
                "path": path,
                "method": site.method,
                "auth": security.auth,
                "headers": headers,
            },
            "input_schema": input_schema,
            "output_schema": output,
            "field_mappings": {"request": mappings},
        }
        return _checked(config, warn)

    def _security(self, site: Site, warn: Warn) -> Security:
        if self.auth is not None:
            return Security(self.auth)
        own = site.raw.get("security")
        return security_of(self.document, self.document.content.get("security") if own is None else own, warn)

    def _servers(self, site: Site) -> list[Any]:
        return [level.get("servers") for level in (site.raw, site.path_item, self.document.content)]

    def _input(self, site: Site, parameters: list[RawParameter], warn: Warn) -> tuple[_Input, str | None]:
        try:
            return self._input_of(site, parameters, warn, self._schemas("readOnly", write_out=True))
        except TooLarge:
            return self._input_of(site, parameters, warn, self._schemas("readOnly", write_out=False))

    def _input_of(
        self, site: Site, parameters: list[RawParameter], warn: Warn, schemas: SchemaConversion
    ) -> tuple[_Input, str | None]:
        fields = parameter_fields(parameters, schemas, warn)
        media_type = None
        if (raw := site.raw.get("requestBody")) is not None:
            if site.method not in WITHOUT_BODY:
                body, media_type = body_fields(self.document, raw, schemas)
                fields += body
            elif self.document.follow(raw).get("required") is True:
                raise UnusablePart(f"it wants a body, and none is sent with {site.method}")
            else:
                warn(f"its body is left out: none is sent with {site.method}")
        schema, mappings = flat_input(fields, site.method)
        if definitions := schemas.definitions():
            schema["$defs"] = definitions
        return (schema, mappings), media_type

    def _output(self, site: Site, warn: Warn) -> tuple[dict[str, Any], str]:
        try:
            response = success_response(self.document, site.raw.get("responses"))
            said = response.get("description")
            returned = said[:LONGEST_DESCRIPTION] if isinstance(said, str) else ""
            media_type, raw = json_content(self.document, response)
            return (self._output_of(raw) if media_type else {}), returned
        except ExternalReference:
            raise
        except UnusablePart as reason:
            warn(f"it has no output_schema: {reason}")
            return {}, ""

    def _output_of(self, raw: Any) -> dict[str, Any]:
        try:
            return _standing_alone(self._schemas("writeOnly", write_out=True), raw)
        except TooLarge:
            # Only the schema itself is written out.
            is_reference = isinstance(raw, dict) and raw.keys() == {"$ref"}
            root = self.document.follow(raw) if is_reference else raw
            return _standing_alone(self._schemas("writeOnly", write_out=False), root)

    def _schemas(self, left_out: LeftOut, *, write_out: bool) -> SchemaConversion:
        whole = self.input_budget if left_out == "readOnly" else self.output_budget
        steps = self.document.steps
        budget = whole.for_schema(steps, WRITTEN_OUT_PARTS) if write_out else whole.for_schema(steps)
        return SchemaConversion(self.document, left_out, budget, write_out=write_out)


def success_response(document: OpenApiDocument, responses: Any) -> dict[str, Any]:
    """Return the first response for success that has JSON, else the first for success, else an empty one.

    Raises:
        UnusablePart: they cannot be read.
    """
    if not isinstance(responses, dict):
        return {}
    document.look_through(responses)
    codes = sorted(code for code in responses if code[:1] == "2" and len(code) == 3)
    found = [document.follow(responses[code]) for code in codes]
    with_json = (response for response in found if json_content(document, response)[0])
    return next(with_json, found[0] if found else {})


def _standing_alone(schemas: SchemaConversion, raw: Any) -> dict[str, Any]:
    schema = schemas.convert(raw)
    definitions = schemas.definitions()
    return {**schema, "$defs": definitions} if definitions else schema


def _shows_who_asks(one: RawParameter, security: Security) -> bool:
    place, name = one.parameter.param_in.value, one.parameter.name.lower()
    auth = security.auth
    own = {("header", header.lower()) for header in security.headers}
    if auth.type == "api_key" and auth.name:
        own.add((auth.location, auth.name.lower()))
    return (place, name) in own


def _declared_placeholders(path: str, parameters: list[RawParameter], warn: Warn) -> tuple[str, list[RawParameter]]:
    """Return each placeholder of the path a name that a configuration takes, and exactly one parameter."""
    declared = {one.parameter.name: one for one in parameters if one.parameter.param_in.value == "path"}
    others = [one for one in parameters if one.parameter.param_in.value != "path"]
    names = list(dict.fromkeys(PLACEHOLDER.findall(path)))
    for name in declared.keys() - set(names):
        warn(f"the path parameter '{shown(name)}' is left out: the path has no such placeholder")
    filled = []
    for name in names:
        if name not in declared:
            warn(f"the placeholder '{shown(name)}' of its path is no declared parameter; any text is taken")
        raw = declared[name].raw if name in declared else {"schema": {"type": "string", "minLength": 1}}
        parameter = (
            declared[name].parameter if name in declared else Parameter.model_validate({"name": name, "in": "path"})
        )
        own_name = name if not name or _PLACEHOLDER_NAME.fullmatch(name) else safe_name(name)
        filled.append(RawParameter(parameter.model_copy(update={"name": own_name, "required": True}), raw))
        path = path.replace(f"{{{name}}}", f"{{{own_name}}}")
    return path, [*filled, *others]


def _checked(config: dict[str, Any], warn: Warn) -> ToolConfig:
    try:
        # What SchemaConversion made is of the right form; looking again takes longer than all the rest.
        return ToolConfig.stored(config)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
    if all(problem["loc"][:1] == ("output_schema",) for problem in problems) and config["output_schema"]:
        warn(f"it has no output_schema: {_told(problems[0])}")
        return _checked({**config, "output_schema": {}}, warn)
    raise UnusablePart(_told(problems[0])) from None


def _told(problem: Any) -> str:
    place = ".".join(str(step) for step in problem["loc"])
    said = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {said}"[:400] if place else said[:400]
