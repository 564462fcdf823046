"""Create the FastAPI application of our own routes, which langgraph.json names as http.app.

It runs inside our server, inside the official server, or alone. Its lifespan opens the tool plane and the tool
registry. Its routes call the LangGraph API as a client (api/langgraph_client.py). The core tools are served at /ai/mcp
(C-01, D-8): opened by the first request, with access checks (T-08).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from dataclasses import replace
from hashlib import sha256

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from loguru import logger
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave import __version__
from toolweave.api.errors import answer_error, answer_invalid_body, detail_response, json_response
from toolweave.api.http_guard import AccessRules, HttpGuard
from toolweave.api.langgraph_client import SERVER_APP_KEY, KnownCallerMiddleware, caller_refusal, may_identify_callers
from toolweave.api.request_bodies import MIB, BodyLimit, BodyLimiter
from toolweave.api.routes import ag_ui, chat, health, openai, openapi_import, servers, tools, workflow
from toolweave.api.routes.openai_requests import OpenAIErrors
from toolweave.api.routes.servers import register_metrics
from toolweave.api.routes.tools import open_app_registry
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ToolweaveError
from toolweave.nodes.model_endpoint import warn_if_offline
from toolweave.origins import is_loopback
from toolweave.servers.connections.plane_slot import open_configured_plane, plane_slot
from toolweave.servers.core import loading
from toolweave.servers.core.credentials import CALLER_SCOPE_KEY, read_core_credentials

OPEN_TIMEOUT_S = 15.0
INTERNAL_ERROR = -32603
REQUEST_REFUSED = -32001
# Headers in which proxies send their client's address, beside `Forwarded` (RFC 7239).
PROXY_HEADERS = (
    *("x-forwarded-for", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "fastly-client-ip"),
    *("fly-client-ip", "x-cluster-client-ip", "x-envoy-external-address", "x-original-forwarded-for"),
)
ADDRESS_WITH_PORT = re.compile(r"\[(?P<v6>[0-9A-Fa-f:.]+)\](?::[0-9]+)?|(?P<v4>[0-9.]+)(?::[0-9]+)?")
NO_CREDENTIALS = (
    "The core tools read databases and files of this machine. If other machines can reach them, callers need a token: "
    "set TOOLWEAVE_CORE_TOKEN, or TOOLWEAVE_CORE_JWKS_URL or TOOLWEAVE_CORE_JWT_PUBLIC_KEY with "
    "TOOLWEAVE_CORE_JWT_ISSUER and TOOLWEAVE_CORE_JWT_AUDIENCE."
)
ORIGIN_NOT_TRUSTED = (
    "This page's origin may not use the core tools without a token. Add the origin to TOOLWEAVE_CORS_ORIGINS "
    "(* is not enough here) or set TOOLWEAVE_CORE_TOKEN."
)
REOPEN_DELAY_S = 1.0
MOUNT_PATH = "/ai"
MCP_PATH = "/mcp"


class LazyCoreServer:
    """ASGI application that opens the core server at the first request.

    Loading takes half a second, and few deployments use it: a thread loads it while requests wait. If it cannot be
    opened, requests get 503 with the reason, and retry it at most once a second.
    """

    def __init__(self, path: str, settings: Settings) -> None:
        self._path = path
        self._settings = settings
        self._app: ASGIApp | None = None
        self._failure = f"It did not open within {OPEN_TIMEOUT_S:g} s."
        self._task: asyncio.Task[None] | None = None
        self._opened_or_failed = asyncio.Event()
        self._closing = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the core server; answer 503 while it is not open."""
        if self._task is None or self._task.done():
            self._opened_or_failed.clear()
            # An empty context: the task outlives this request, whose caller must not become the caller of all others.
            self._task = asyncio.create_task(self._run(), name="core-server", context=Context())
        with suppress(TimeoutError):
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._opened_or_failed.wait()
        text = f"The core server cannot be used right now. {self._failure}"
        answer = self._app or rpc_error(503, INTERNAL_ERROR, text, {"retry-after": "1"})
        await _send_complete_response(answer, scope, receive, send)

    async def close(self) -> None:
        """Close the server if it is open."""
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        """Open the server, wait for `close` and close it, all in one task."""
        try:
            await asyncio.to_thread(loading.import_core_server)
            async with loading.open_http_app(self._settings, self._path) as self._app:
                self._opened_or_failed.set()
                await self._closing.wait()
        except Exception as error:  # noqa: BLE001 - a broken core server must not affect the other routes
            self._failure = str(error) if isinstance(error, ToolweaveError) else "See the log for the reason."
            logger.opt(exception=error).error("the core server cannot be used")
        self._app = None
        self._opened_or_failed.set()
        # During this delay requests are refused at once.
        with suppress(TimeoutError):
            async with asyncio.timeout(REOPEN_DELAY_S):
                await self._closing.wait()


async def _send_complete_response(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Run `app`, and end an incomplete response: the MCP SDK does not end event streams when the server stops."""
    is_incomplete = False

    async def track_end(message: Message) -> None:
        nonlocal is_incomplete
        is_incomplete = message["type"] == "http.response.start" or message.get("more_body", False)
        await send(message)

    await app(scope, receive, track_end)
    if is_incomplete:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def rpc_error(status: int, code: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON-RPC error that belongs to no request, as MCP servers send it."""
    error = {"jsonrpc": "2.0", "id": "server-error", "error": {"code": code, "message": message}}
    return json_response(error, status, headers)


class CoreServerGuard:
    """ASGI middleware that checks access to the core server.

    If the operator has set credentials, the core server itself checks them. Otherwise it only accepts callers on this
    machine that the API accepts, and web pages only of trusted origins. A session is then bound to the API credentials
    that opened it. An insecure bind does not change this.

    Raises:
        ConfigError: a `core_…` setting is invalid.
    """

    def __init__(self, settings: Settings, app: ASGIApp) -> None:
        self._app = app
        self._has_credentials = read_core_credentials(settings).is_configured
        self._is_bound_to_loopback = is_loopback(settings.host)
        self._rules = AccessRules.from_settings(settings)
        self._loopback_guard = HttpGuard(self._admit, self._rules)
        self._public_guard = HttpGuard(self._admit, replace(self._rules, host_names=None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check Host and Origin unless our server has done so, then check access."""
        if SERVER_APP_KEY in scope:
            await self._admit(scope, receive, send)
            return
        guard = self._loopback_guard if _is_loopback_end(scope, "server") else self._public_guard
        await guard(scope, receive, send)

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._has_credentials:
            await self._app(scope, receive, send)
            return
        refusal = self._local_refusal(scope) or await self._api_refusal(scope)
        answer = refusal or self._app
        await answer({**scope, CALLER_SCOPE_KEY: _caller_id(scope)}, receive, send)

    def _local_refusal(self, scope: Scope) -> Response | None:
        # The bound address may differ from the setting, and a proxy on this machine names its client in headers.
        is_local = _is_loopback_end(scope, "server") and (not scope.get("client") or _is_loopback_end(scope, "client"))
        if not (self._is_bound_to_loopback and is_local):
            return rpc_error(403, REQUEST_REFUSED, NO_CREDENTIALS)
        headers = Headers(scope=scope)
        if not all(map(is_loopback, _forwarded_addresses(headers))):
            return rpc_error(403, REQUEST_REFUSED, NO_CREDENTIALS)
        origin = headers.get("origin")
        access_rules: AccessRules = scope[SERVER_APP_KEY].state.access_rules if SERVER_APP_KEY in scope else self._rules
        if origin is not None and not access_rules.is_trusted_origin(origin, headers.get("host", "")):
            return rpc_error(403, REQUEST_REFUSED, ORIGIN_NOT_TRUSTED)
        return None

    async def _api_refusal(self, scope: Scope) -> Response | None:
        refused = await caller_refusal(Request(scope))
        if refused is None:
            return None
        headers = {"www-authenticate": "Bearer"} if refused.status_code == 401 else None
        return rpc_error(refused.status_code, REQUEST_REFUSED, refused.detail, headers)


def _forwarded_addresses(headers: Headers) -> list[str]:
    """Return the client addresses that proxies name in headers, and texts there that are no addresses."""
    addresses = [each for name in PROXY_HEADERS for value in headers.getlist(name) for each in value.split(",")]
    for element in (each for value in headers.getlist("forwarded") for each in value.split(",")):
        pairs = [pair.partition("=") for pair in element.split(";")]
        # Without a "for" the client is unknown, so it does not count as local.
        addresses += [value for name, _, value in pairs if name.strip().lower() == "for"] or [""]
    return [_strip_port(each) for each in addresses]


def _strip_port(text: str) -> str:
    """Return the address without its port, as of `127.0.0.1:5000` or `"[::1]:5000"`."""
    found = ADDRESS_WITH_PORT.fullmatch(text.strip().strip('"'))
    return found["v6"] or found["v4"] if found else text.strip()


def _caller_id(scope: Scope) -> str | None:
    """Return a digest of the caller's API credentials, None if the API has no authentication."""
    if not may_identify_callers(scope):
        return None
    headers = Headers(scope=scope)
    keys = [headers.get(name, "") for name in ("authorization", "x-api-key")]
    # Cookies count only without the other two: pages set them for other reasons, too.
    sent = keys if any(keys) else [headers.get("cookie", "")]
    return sha256("\n".join(sent).encode()).hexdigest()


def _is_loopback_end(scope: Scope, end: str) -> bool:
    """Return whether one end of the connection ("server" or "client") has a loopback address."""
    address: tuple[str, int] | None = scope.get(end)
    return address is not None and is_loopback(address[0])


class CoreServerMount:
    """ASGI application to mount at /ai; its only path is /mcp."""

    def __init__(self) -> None:
        # By event loop: two servers in one process may serve the same application.
        self._servers: dict[asyncio.AbstractEventLoop, ASGIApp] = {}

    @asynccontextmanager
    async def serve(self, settings: Settings) -> AsyncIterator[None]:
        """Serve requests on this event loop until the block ends, then close the core server.

        Raises:
            ConfigError: a `core_…` setting is invalid.
        """
        server, loop = LazyCoreServer(MCP_PATH, settings), asyncio.get_running_loop()
        self._servers[loop] = CoreServerGuard(settings, server)
        try:
            yield
        finally:
            del self._servers[loop]
            await server.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to the MCP path; answer 404 to any other."""
        root = scope.get("root_path", "")
        if scope["type"] != "http" or scope["path"].removeprefix(root).rstrip("/") != MCP_PATH:
            await detail_response(404, "Not Found")(scope, receive, send)
            return
        # The route under which the metrics count these requests.
        scope["route"] = METRICS_ROUTE
        answer = self._servers.get(asyncio.get_running_loop()) or NOT_STARTED
        # A trailing slash is removed here: a redirect would repeat any Host that the request names.
        await answer({**scope, "path": f"{root}{MCP_PATH}"}, receive, send)


NOT_STARTED = rpc_error(503, INTERNAL_ERROR, "The application has not been started.")
METRICS_ROUTE = Mount(f"{MOUNT_PATH}{MCP_PATH}", NOT_STARTED)


CLIENT_ROUTERS = (openai.router, ag_ui.router)
ROUTERS = (
    *(chat.router, health.router, servers.router, workflow.router, openapi_import.router, tools.router),
    *CLIENT_ROUTERS,
)
IMPORT_PATHS = re.compile("^/tools/import(/openapi)?$")
IMPORT_LIMIT = BodyLimit(16 * MIB, openapi_import.MAX_DOCUMENT_VALUES)
CORE_PATH = re.compile(f"^{MOUNT_PATH}{MCP_PATH}/?$")
# Whole conversations, perhaps with images: as for the runs of the LangGraph API.
CLIENT_LIMIT = BodyLimit(32 * MIB)
# The MCP SDK itself refuses bodies over 4 MiB.
CORE_LIMIT = BodyLimit(32 * MIB)


def _path_patterns(routers: tuple[APIRouter, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(route.path_regex for each in routers for route in each.routes if isinstance(route, Route))


def create_app(settings: Settings | None = None) -> FastAPI:
    """Create the application; it reads settings and opens connections only when its lifespan starts."""
    core = CoreServerMount()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        plane_slot.expect_plane()
        app.state.settings = settings or load_settings()
        warn_if_offline(app.state.settings)
        async with core.serve(app.state.settings), open_configured_plane(app.state.settings) as plane:
            app.state.plane = plane
            plane_slot.set_plane(plane)
            try:
                async with open_app_registry(app.state.settings) as app.state.registry:
                    with register_metrics(plane):
                        yield
            finally:
                plane_slot.clear_plane(plane)

    app = FastAPI(title="Toolweave", version=__version__, lifespan=lifespan)
    app.add_exception_handler(RequestValidationError, answer_invalid_body)
    app.add_exception_handler(ToolweaveError, answer_error)
    paths, client_paths = _path_patterns(ROUTERS), _path_patterns(CLIENT_ROUTERS)
    limits = {**dict.fromkeys(paths, BodyLimit(MIB)), **dict.fromkeys(client_paths, CLIENT_LIMIT)}
    app.add_middleware(BodyLimiter, limits={IMPORT_PATHS: IMPORT_LIMIT, CORE_PATH: CORE_LIMIT, **limits})
    # Outside the body limit: unknown callers must not learn the limits.
    app.add_middleware(KnownCallerMiddleware, paths=paths)
    app.add_middleware(OpenAIErrors)
    for router in ROUTERS:
        app.include_router(router)
    # Mounted last: our own routes under the same path take precedence.
    app.mount(MOUNT_PATH, core)
    return app


app = create_app()
