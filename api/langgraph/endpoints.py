"""Endpoint definitions: the router, authorization and /openapi.json all use the same one."""

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
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
from toolweave.config.langgraph_json import AuthOpenApi, HttpEntry, LangGraphJson
from toolweave.runtime.models import JsonObject

JSON = "application/json"
SSE = "text/event-stream"
UUID_IDS = frozenset({"assistant_id", "thread_id", "run_id", "cron_id"})
AnyHandler = TypeVar("AnyHandler", bound=Callable[..., Awaitable[ASGIApp]])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: its method, path, handler, authorization rule, request and responses.

    `rule` calls the application's auth handlers; None opens the endpoint to all callers, as in the official server.
    `body` and `answer` name components, "X[]" a list of them; `answer` None means no JSON body. With a `media_type`
    other than JSON the client may request either. `errors` are the statuses beside `status`, that of a success;
    `error_answers` names the components of error bodies other than `{"detail": …}`. `switch` is the `http.disable_…`
    option that removes the endpoint.
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
    """The endpoints of one resource, in order; a call returns a decorator that adds one."""

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
        """Return a decorator that adds an endpoint: `operation` is "METHOD path", the rest are `Endpoint` fields.

        The handler receives the UUIDs of the path and the checked `body`, whose unknown fields the response names; with
        `read=False` the request only. The first line of its docstring is the default summary. A path with an id may
        be 404.
        """
        method, path = operation.split()
        if errors is None:
            errors = (404, 422) if "{" in path else (422,)
        shared: JsonObject = {"tag": self._tag, "switch": self._switch, **more}

        def add(handler: AnyHandler) -> AnyHandler:
            adapted = _with_arguments(path, body, handler) if read else handler
            title = summary or (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
            self._endpoints.append(Endpoint(method, path, adapted, title, rule, body, answer, errors, **shared))
            return handler

        return add


def _with_arguments(path: str, body: str | None, handler: Callable[..., Awaitable[ASGIApp]]) -> Handler:
    schema = None if body is None else body_schema(body)
    ids = [name for name in _path_parameter_names(path) if name in UUID_IDS]

    async def answer(request: Request) -> ASGIApp:
        arguments: dict[str, Any] = {name: path_uuid(request, name.removesuffix("_id")) for name in ids}
        if schema is not None:
            arguments["body"] = await read_body(request, schema)
        response = await handler(request, **arguments)
        if schema is not None and isinstance(response, Response):
            for name, text in arguments["body"].ignored_header().items():
                response.headers.setdefault(name, text)
        return response

    return answer


def enabled_endpoints(endpoints: Iterable[Endpoint], http: HttpEntry) -> list[Endpoint]:
    """Return the endpoints that langgraph.json does not disable (`http.disable_…`)."""
    return [each for each in endpoints if each.switch is None or not getattr(http, each.switch)]


def authorized_endpoints(endpoints: Iterable[Endpoint], handlers: AuthHandlers | None) -> list[Endpoint]:
    """Return the endpoints with handlers that apply their rules; unchanged if `handlers` is None."""
    return [
        each
        if handlers is None or each.rule is None
        else replace(each, handler=authorized_handler(each.handler, each.rule, each.body, handlers))
        for each in endpoints
    ]


class PathRoute(Route):
    """The route of one path with all its methods; other methods get 405 with the full `Allow`."""

    def __init__(self, path: str, endpoints: Iterable[Endpoint]) -> None:
        self.handlers: dict[str, Handler] = {}
        for endpoint in endpoints:
            self.handlers[endpoint.method] = endpoint.handler
            # Not for streams: a HEAD would wait for their end.
            if endpoint.method == "GET" and endpoint.media_type == JSON:
                self.handlers["HEAD"] = endpoint.handler
        super().__init__(path, _never_called, methods=list(self.handlers))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the handler of the method and send its response."""
        handler = self.handlers.get(scope["method"])
        if handler is None:
            raise HTTPException(405, headers={"allow": ", ".join(sorted(self.handlers))})
        answer = await handler(Request(scope, receive, send))
        await answer(scope, receive, send)


def group_by_path(endpoints: Iterable[Endpoint]) -> list[PathRoute]:
    """Return one route for each path, in order of first appearance."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    return [PathRoute(path, group) for path, group in by_path.items()]


async def _never_called(_request: Request) -> Response:
    raise NotImplementedError


def openapi_document(endpoints: Iterable[Endpoint], custom: Mapping[str, Any]) -> JsonObject:
    """Return the OpenAPI document; title, version and paths of `custom` (http.app) take precedence."""
    paths: dict[str, JsonObject] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    for path, operations in custom.get("paths", {}).items():
        paths[path] = {**paths.get(path, {}), **operations}
    components = dict(custom.get("components", {}))
    titled = {name: {"title": name, **schema} for name, schema in COMPONENTS.items()}
    components["schemas"] = {**components.get("schemas", {}), **titled}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toolweave", "version": __version__, **custom.get("info", {})},
        "paths": paths,
        "components": components,
    }


_DOCS_SCRIPT = 'SwaggerUIBundle({url: "openapi.json", dom_id: "#api", filter: true, validatorUrl: null})'
_SCRIPT_HASH = b64encode(sha256(_DOCS_SCRIPT.encode()).digest()).decode()
DOCS_HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"connect-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self' 'sha256-{_SCRIPT_HASH}'"
}


def docs_page(title: str) -> str:
    """Return the HTML page of Swagger UI, which sends requests to this server; its files are below docs/."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<link rel="icon" href="data:,"><link rel="stylesheet" href="docs/swagger-ui.css"></head>'
        '<body><div id="api"><a href="openapi.json">openapi.json</a></div>'
        f'<script src="docs/swagger-ui-bundle.js"></script><script>{_DOCS_SCRIPT}</script></body></html>'
    )


def _operation(endpoint: Endpoint) -> JsonObject:
    query = ({"name": each.name, "in": each.location, "schema": each.schema} for each in endpoint.query)
    operation: JsonObject = {
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").strip("_"),
        "parameters": [*_path_parameters(endpoint.path), *query],
        "responses": _responses(endpoint),
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(endpoint.body)}}}
    return operation


def _path_parameters(path: str) -> list[JsonObject]:
    by_name = path.endswith("/graph")
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "format": "uuid"} if name in UUID_IDS and not by_name else {"type": "string"},
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
    too_large = (413,) if endpoint.body is not None else ()
    for status in (*endpoint.errors, *too_large):
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
        if status >= 300:
            responses[str(status)]["content"] = {
                JSON: {"schema": ref(endpoint.error_answers.get(status, "ErrorResponse"))}
            }
    return responses


# The headers that auth handlers usually read, for a langgraph.json without `auth.openapi`.
_USUAL_SECURITY = AuthOpenApi(
    securitySchemes={name: {"type": "apiKey", "in": "header", "name": name} for name in ("Authorization", "X-Api-Key")},
    security=({"Authorization": []}, {"X-Api-Key": []}),
)


def add_security(document: JsonObject, config: LangGraphJson) -> JsonObject:
    """Return the document with the security of langgraph.json, by default two usual headers, and with 401 and 403."""
    if config.auth is None:
        return document
    rules = config.auth.openapi or _USUAL_SECURITY
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, text in (("401", "Unauthorized"), ("403", "Forbidden")):
                operation.get("responses", {}).setdefault(status, {"description": text})
            if (needed := rules.paths.get(path, {}).get(method.upper())) is not None:
                operation["security"] = needed
    components = {**document["components"], "securitySchemes": rules.securitySchemes}
    return {**document, "components": components, "security": list(rules.security)}
