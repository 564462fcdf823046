"""Describe each operation once: the router serves it, authorization asks its rule, /openapi.json publishes it."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from http import HTTPStatus
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave import __version__
from toolweave.api.langgraph.auth.authentication import AuthHandlers
from toolweave.api.langgraph.auth.authorization import Rule, authorized_handler
from toolweave.api.langgraph.components import COMPONENTS, body_schema
from toolweave.api.langgraph.json_schema import list_of, ref
from toolweave.api.langgraph.requests import Handler, QueryParam, path_uuid, read_body
from toolweave.config.langgraph_json import HttpEntry, LangGraphJson
from toolweave.runtime.models import JsonObject

JSON = "application/json"
SSE = "text/event-stream"
UUID_IDS = frozenset({"assistant_id", "thread_id", "run_id", "cron_id"})
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[ASGIApp]])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: its method and path, who answers it and who may ask for it, what it takes and gives.

    `rule` asks the application's auth handlers; None opens the endpoint to anybody, as in the official server.
    `body` and `answer` name components, "X[]" a list of them; `answer` None means that a success has no JSON body;
    with a `media_type` of another kind the client may ask for either. `errors` are the statuses beside `status` (which
    is that of a success); `error_answers` names the component of those whose body is not the usual `{"detail": …}`.
    `switch` names the `http.disable_…` that removes the endpoint.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    rule: Rule | None
    body: str | None
    answer: str | None
    errors: tuple[int, ...]
    tag: str
    switch: str | None = None
    media_type: str = JSON
    status: int = 200
    query: tuple[QueryParam, ...] = ()
    error_answers: Mapping[int, str] = field(default_factory=dict)


class Endpoints:
    """The endpoints of one resource in the order of their handlers, which it decorates."""

    def __init__(self, tag: str, switch: str | None = None) -> None:
        self._tag = tag
        self._switch = switch
        self._endpoints: list[Endpoint] = []

    def __iter__(self) -> Iterator[Endpoint]:
        return iter(self._endpoints)

    def __call__(
        self,
        operation: str,
        rule: Rule | None,
        body: str | None = None,
        answer: str | None = None,
        *,
        read: bool = True,
        summary: str | None = None,
        errors: tuple[int, ...] | None = None,
        **more: Any,
    ) -> Callable[[AnyHandler], AnyHandler]:
        """Add an endpoint: `operation` is its method and path, the others are fields of `Endpoint`.

        The handler takes the UUIDs of the path by their names and `body`, checked, and the answer names the fields that
        the body's schema does not have; without `read` the handler does that itself.
        The first line of its docstring is the summary. What has an id in its path may be 404.
        """
        method, path = operation.split()
        if errors is None:
            errors = (404, 422) if "{" in path else (422,)
        shared: JsonObject = {"tag": self._tag, "switch": self._switch, **more}

        def add(handler: AnyHandler) -> AnyHandler:
            called = _with_arguments(path, body, handler) if read else handler
            title = summary or (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
            self._endpoints.append(Endpoint(method, path, called, title, rule, body, answer, errors, **shared))
            return handler

        return add


def _with_arguments(path: str, body: str | None, handler: Callable[..., Awaitable[ASGIApp]]) -> Handler:
    schema = None if body is None else body_schema(body)
    ids = [name for name in _path_parameter_names(path) if name in UUID_IDS]

    async def answer(request: Request) -> ASGIApp:
        checked: dict[str, Any] = {name: path_uuid(request, name.removesuffix("_id")) for name in ids}
        if schema is not None:
            checked["body"] = await read_body(request, schema)
        answered = await handler(request, **checked)
        if schema is not None and isinstance(answered, Response):
            for name, text in checked["body"].headers().items():
                answered.headers.setdefault(name, text)
        return answered

    return answer


def enabled_endpoints(endpoints: Iterable[Endpoint], http: HttpEntry) -> list[Endpoint]:
    """Leave out the endpoints that langgraph.json switches off (`http.disable_…`): they are not found."""
    return [each for each in endpoints if each.switch is None or not getattr(http, each.switch)]


def authorized_endpoints(endpoints: Iterable[Endpoint], handlers: AuthHandlers | None) -> list[Endpoint]:
    """Ask its rule before every endpoint that is not open to all; without authentication nothing changes."""
    return [
        each
        if handlers is None or each.rule is None
        else replace(each, handler=authorized_handler(each.handler, each.rule, each.body, handlers))
        for each in endpoints
    ]


class Resource(Route):
    """All methods of one path; a method it does not have is 405 with the full `Allow`."""

    def __init__(self, path: str, endpoints: Iterable[Endpoint]) -> None:
        self.handlers: dict[str, Handler] = {}
        for endpoint in endpoints:
            self.handlers[endpoint.method] = endpoint.handler
            # A HEAD of a stream would wait for its end.
            if endpoint.method == "GET" and endpoint.media_type == JSON:
                self.handlers["HEAD"] = endpoint.handler
        super().__init__(path, _never_called, methods=list(self.handlers))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the method's handler and send what it answers."""
        handler = self.handlers.get(scope["method"])
        if handler is None:
            raise HTTPException(405, headers={"allow": ", ".join(sorted(self.handlers))})
        answer = await handler(Request(scope, receive, send))
        await answer(scope, receive, send)


def group_by_path(endpoints: Iterable[Endpoint]) -> list[Resource]:
    """Group endpoints by path, in order of first appearance."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    return [Resource(path, group) for path, group in by_path.items()]


async def _never_called(_request: Request) -> Response:
    raise NotImplementedError


def openapi_document(endpoints: Iterable[Endpoint], custom: Mapping[str, Any]) -> JsonObject:
    """Describe the API; the application's own document gives title, version and its paths, which win."""
    paths: dict[str, JsonObject] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    for path, operations in custom.get("paths", {}).items():
        paths[path] = {**paths.get(path, {}), **operations}
    components = dict(custom.get("components", {}))
    components["schemas"] = {**components.get("schemas", {}), **_with_titles(COMPONENTS)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toolweave", "version": __version__, **custom.get("info", {})},
        "paths": paths,
        "components": components,
    }


def docs_page(document: JsonObject) -> str:
    """List a document's operations as an HTML page that needs no network and no script."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    rows = "".join(
        f"<li><code>{escape(method.upper())}</code> <code>{escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</li>"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f'<h1>{title}</h1><p>Machine-readable: <a href="openapi.json">openapi.json</a></p><ul>{rows}</ul></body></html>'
    )


def _operation(endpoint: Endpoint) -> JsonObject:
    queried = ({"name": each.name, "in": each.where, "schema": each.schema} for each in endpoint.query)
    operation: JsonObject = {
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").strip("_"),
        "parameters": [*_path_parameters(endpoint.path), *queried],
        "responses": _responses(endpoint),
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(endpoint.body)}}}
    return operation


def _path_parameters(path: str) -> list[JsonObject]:
    drawing = path.endswith("/graph")
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "format": "uuid"} if name in UUID_IDS and not drawing else {"type": "string"},
        }
        for name in _path_parameter_names(path)
    ]


def _path_parameter_names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _responses(endpoint: Endpoint) -> JsonObject:
    success: JsonObject = {"description": "Success"}
    content: JsonObject = {}
    if endpoint.media_type != JSON:
        content[endpoint.media_type] = {"schema": {"type": "string"}}
    if endpoint.answer is not None:
        answer = ref(endpoint.answer.removesuffix("[]"))
        content[JSON] = {"schema": list_of(answer) if endpoint.answer.endswith("[]") else answer}
    if content:
        success["content"] = content
    responses: JsonObject = {str(endpoint.status): success}
    refused = (413,) if endpoint.body is not None else ()
    for status in (*endpoint.errors, *refused):
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
        if status >= 300:
            responses[str(status)]["content"] = {
                JSON: {"schema": ref(endpoint.error_answers.get(status, "ErrorResponse"))}
            }
    return responses


def _with_titles(components: Mapping[str, Any]) -> JsonObject:
    return {name: {"title": name, **schema} for name, schema in components.items()}


def add_security(document: JsonObject, config: LangGraphJson) -> JsonObject:
    """Add the security schemes and requirements that langgraph.json gives, and 401 and 403 where they are answered."""
    if config.auth is None:
        return document
    rules = config.auth.openapi
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, text in (("401", "Unauthorized"), ("403", "Forbidden")):
                operation.get("responses", {}).setdefault(status, {"description": text})
            if rules and (needed := rules.paths.get(path, {}).get(method.upper())) is not None:
                operation["security"] = needed
    if rules is None:
        return document
    components = {**document["components"], "securitySchemes": rules.securitySchemes}
    return {**document, "components": components, "security": list(rules.security)}
