"""Turn one operation of an OpenAPI document into a ToolConfig (W-01)."""

import re
from dataclasses import dataclass, field, replace
from typing import Any

from openapi_pydantic import Parameter
from pydantic import ValidationError

from toolweave.servers.registry.openapi.bodies import BodyFields, body_fields, json_content
from toolweave.servers.registry.openapi.budget import Budget, TooLarge
from toolweave.servers.registry.openapi.descriptions import LONGEST_DESCRIPTION, description_of, title_of
from toolweave.servers.registry.openapi.fields import FlatInput, flat_input, safe_name
from toolweave.servers.registry.openapi.parameters import RawParameter, Warn, declared_parameters, parameter_fields
from toolweave.servers.registry.openapi.parts import read_operation
from toolweave.servers.registry.openapi.references import Document, ExternalReference, Unusable, shown
from toolweave.servers.registry.openapi.schemas import LeftOut, SchemaConversion
from toolweave.servers.registry.openapi.security import Security, security_of
from toolweave.servers.registry.openapi.servers import base_url
from toolweave.tool_config import LONGEST_PATH, PLACEHOLDER, WITHOUT_BODY, ApiAuth, Method, ToolConfig

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

    document: Document
    base_url: str | None = None
    document_url: str | None = None
    auth: ApiAuth | None = None
    input_budget: Budget = field(default_factory=Budget)
    output_budget: Budget = field(default_factory=Budget)

    def tool(self, tool_id: str, site: Site, warn: Warn) -> ToolConfig:
        """Make the tool of an operation.

        Raises:
            Unusable: it cannot be called by a ToolConfig; the text is the reason.
        """
        return replace(self, document=self.document.for_operation()).tool_within_steps(tool_id, site, warn)

    def tool_within_steps(self, tool_id: str, site: Site, warn: Warn) -> ToolConfig:
        """Make the tool of an operation within the steps that `document` has left; raises like `tool`."""
        if len(site.path.partition("#")[0]) > LONGEST_PATH:
            raise Unusable(f"its path has more than {LONGEST_PATH} characters")
        operation = read_operation(self.document, site.raw)
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
        given, media_type = self._input(site, parameters, warn)
        output, returned = self._output(site, warn)
        api = {
            "base_url": called,
            "path": path,
            "method": site.method,
            "auth": security.auth,
            "headers": security.headers,
        }
        if media_type:
            api["headers"] = {**security.headers, "Content-Type": media_type}
        config = {
            "tool_id": tool_id,
            "name": title_of(operation, site.method, site.path),
            "description": description_of(operation, site.method, site.path, returned),
            "api": api,
            "input_schema": given.schema,
            "output_schema": output,
            "field_mappings": {"request": given.mappings},
        }
        return _checked(config, warn)

    def _security(self, site: Site, warn: Warn) -> Security:
        if self.auth is not None:
            return Security(self.auth)
        own = site.raw.get("security")
        return security_of(self.document, self.document.content.get("security") if own is None else own, warn)

    def _servers(self, site: Site) -> list[Any]:
        return [level.get("servers") for level in (site.raw, site.path_item, self.document.content)]

    def _input(self, site: Site, parameters: list[RawParameter], warn: Warn) -> tuple[FlatInput, str | None]:
        try:
            return self._input_of(site, parameters, warn, self._schemas("readOnly", write_out=True))
        except TooLarge:
            return self._input_of(site, parameters, warn, self._schemas("readOnly", write_out=False))

    def _input_of(
        self, site: Site, parameters: list[RawParameter], warn: Warn, schemas: SchemaConversion
    ) -> tuple[FlatInput, str | None]:
        fields = parameter_fields(parameters, schemas, warn)
        body = BodyFields()
        if (raw := site.raw.get("requestBody")) is not None:
            if site.method not in WITHOUT_BODY:
                body = body_fields(self.document, raw, schemas)
            elif self.document.follow(raw).get("required") is True:
                raise Unusable(f"it wants a body, and none is sent with {site.method}")
            else:
                warn(f"its body is left out: none is sent with {site.method}")
        given = flat_input([*fields, *body.fields], site.method)
        if definitions := schemas.definitions():
            given.schema["$defs"] = definitions
        return given, body.media_type

    def _output(self, site: Site, warn: Warn) -> tuple[dict[str, Any], str]:
        try:
            response = success_response(self.document, site.raw.get("responses"))
            said = response.get("description")
            returned = said[:LONGEST_DESCRIPTION] if isinstance(said, str) else ""
            media_type, raw = json_content(self.document, response)
            return (self._output_of(raw) if media_type else {}), returned
        except ExternalReference:
            raise
        except Unusable as reason:
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


def success_response(document: Document, responses: Any) -> dict[str, Any]:
    """Give the first response for success that has JSON, else the first for success, else an empty one.

    Raises:
        Unusable: they cannot be read.
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
    """Give each placeholder of the path a name that a configuration takes, and exactly one parameter."""
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
    raise Unusable(_told(problems[0])) from None


def _told(problem: Any) -> str:
    place = ".".join(str(step) for step in problem["loc"])
    said = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {said}"[:400] if place else said[:400]
