"""Call the LangGraph API from our own routes in any server, and refuse callers that this API refuses."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Collection

import httpx
from fastapi import HTTPException, Request
from langgraph_sdk.client import LangGraphClient
from loguru import logger
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.api.request_bodies import matching_pattern, replay_body
from toolweave.errors import BadRequest
from toolweave.runtime.caller import ANONYMOUS, Caller, current_caller

# After the client closes a response, the application has this long to stop before its task is cancelled.
CLOSE_TIMEOUT_S = 3.0
MAX_UNREAD_MESSAGES = 256
# Scope key that our server sets on every request: the whole application, including the LangGraph API.
SERVER_APP_KEY = "toolweave.asgi"
# Scope key of the `http.mount_prefix` of langgraph.json, if it has one.
MOUNT_PREFIX_KEY = "toolweave.prefix"
# Modules that are loaded when the official server runs this application: its own application and its mount prefix.
OFFICIAL_SERVER, OFFICIAL_CONFIG = "langgraph_api.server", "langgraph_api.config"
# The caller's credentials, with which our routes call the API on the caller's behalf.
CREDENTIAL_HEADERS = ("authorization", "x-api-key", "cookie")
# The trace headers keep these calls in the caller's trace.
FORWARDED_HEADERS = (*CREDENTIAL_HEADERS, "traceparent", "tracestate")
CONNECT_TIMEOUT_S = 5.0
CONNECT_RETRIES = 5
ANSWER_TIMEOUT_S = 5.0
# "search" is no assistant id: known callers get a 422 before the database and the resource auth handlers are used.
CALLER_CHECK_PATH = "/assistants/search"
REFUSAL_TEXTS = {
    401: "These routes need the same credentials as the LangGraph API. Send them with the request.",
    403: "The LangGraph API does not allow you to use this server.",
}
# Scope key of the refusal, or None, that `KnownCallerMiddleware` received.
REFUSAL_KEY = "toolweave.caller_refusal"
# Scope key of the caller's check: a list to which our authentication appends the caller that it has identified.
IDENTIFIED_KEY = "toolweave.identified_callers"
# Scope key of the caller that the API has identified; missing if the API does not say who it is.
CALLER_KEY = "toolweave.caller"
NOT_IDENTIFIED = "This server does not pass on who you are. Set http.enable_custom_route_auth in langgraph.json."
CHECK_FAILED = "The LangGraph API could not check your credentials. Please try again later."
OWN_GRAPHS = frozenset({"agent_loop", "todo_agent", "workflow", "script_writer"})
MAX_GRAPHS = 1_000


async def graph_names(client: LangGraphClient) -> list[str]:
    """Return the names of the graphs that the API serves; each is also the name of an assistant."""
    assistants = await client.assistants.search(metadata={"created_by": "system"}, limit=MAX_GRAPHS)
    return sorted({assistant["graph_id"] for assistant in assistants})


def default_assistant(graphs: Collection[str], enabled_servers: Collection[str]) -> str:
    """Return the assistant that answers where none is named (U-01).

    It is the only graph. Of Toolweave's own graphs it is the todo agent if no other MCP server than the todo server is
    enabled, else the agent loop.

    Raises:
        BadRequest: there are several graphs; the text lists them.
    """
    if len(graphs) == 1:
        return next(iter(graphs))
    if set(graphs) == OWN_GRAPHS:
        return "todo_agent" if set(enabled_servers) == {"todo"} else "agent_loop"
    raise BadRequest(
        f"This application has several assistants: {', '.join(graphs)}. Name one of them."
        if graphs
        else "This application has no assistant that you may use."
    )


class StreamingAsgiTransport(httpx.AsyncBaseTransport):
    """Carry httpx requests into an ASGI application; body chunks arrive as the application sends them.

    When the client closes the response early, the application receives `http.disconnect`. An exception in the
    application becomes httpx.RemoteProtocolError.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Start the application on the request and return once it has sent its status and headers."""
        body, disconnected = await request.aread(), asyncio.Event()
        # None follows the application's last message.
        messages: asyncio.Queue[Message | None] = asyncio.Queue(MAX_UNREAD_MESSAGES)

        async def receive_disconnect() -> Message:
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            # Drop messages after the client has disconnected.
            if not disconnected.is_set():
                await messages.put(message)

        async def run() -> None:
            try:
                await self._app(_scope(request), replay_body(body, receive_disconnect), send)
            finally:
                if not disconnected.is_set():
                    await messages.put(None)

        answer = _ResponseBody(messages, disconnected, asyncio.create_task(run()))
        try:
            start = await messages.get()
        except asyncio.CancelledError:
            # The caller timed out: nothing else would end the application's task.
            disconnected.set()
            answer.task.cancel()
            raise
        if start is None:
            await answer.aclose()
            raise httpx.RemoteProtocolError("the application ended without a response", request=request)
        return httpx.Response(start["status"], headers=start.get("headers", []), stream=answer)


class _ResponseBody(httpx.AsyncByteStream):
    """The body of a response; closing it sends the application a disconnect."""

    def __init__(self, messages: asyncio.Queue[Message | None], ended: asyncio.Event, task: asyncio.Task[None]) -> None:
        self._messages = messages
        self._ended = ended
        self.task = task

    async def __aiter__(self) -> AsyncIterator[bytes]:
        complete = False
        while (message := await self._messages.get()) is not None:
            if message["type"] == "http.response.body":
                complete = not message.get("more_body", False)
                if chunk := message.get("body"):
                    yield chunk
        if not complete:
            raise httpx.RemoteProtocolError("the application ended in the middle of a response")

    async def aclose(self) -> None:
        """Send the disconnect, and cancel the application if it does not stop within `CLOSE_TIMEOUT_S`."""
        self._ended.set()
        while not self._messages.empty():
            self._messages.get_nowait()
        await asyncio.wait([self.task], timeout=CLOSE_TIMEOUT_S)
        self.task.cancel()
        await asyncio.wait([self.task])


def _scope(request: httpx.Request) -> Scope:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (request.url.host, request.url.port or 80),
        "state": {},
        "extensions": {},
        IDENTIFIED_KEY: request.extensions.get(IDENTIFIED_KEY),
    }


def _raise_no_api(request: httpx.Request) -> httpx.Response:
    text = "No LangGraph API serves this application. Start it with toolweave serve, or set TOOLWEAVE_API_URL."
    raise httpx.ConnectError(text, request=request)


def api_client(request: Request) -> LangGraphClient:
    """Return a client of the LangGraph API that sends the credentials of this request's caller, never our own.

    It calls TOOLWEAVE_API_URL if set, else the same process without a socket, in our server and in the official one.
    Anywhere else its requests fail as if the server were down.
    """
    credentials = {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers}
    url: str | None = request.app.state.settings.api_url
    if url is not None:
        transport: httpx.AsyncBaseTransport = httpx.AsyncHTTPTransport(retries=CONNECT_RETRIES)
    else:
        server_app, prefix = request.scope.get(SERVER_APP_KEY), request.scope.get(MOUNT_PREFIX_KEY, "")
        if server_app is None and OFFICIAL_SERVER in sys.modules:
            # The official server's own in-process client would bypass its authentication.
            server_app = sys.modules[OFFICIAL_SERVER].app
            prefix = getattr(sys.modules[OFFICIAL_CONFIG], "MOUNT_PREFIX", None) or ""
        transport = httpx.MockTransport(_raise_no_api) if server_app is None else StreamingAsgiTransport(server_app)
        url = f"http://127.0.0.1{prefix}"
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    # Not get_client(): it would add an API key from our environment, and every caller would have its rights.
    return LangGraphClient(httpx.AsyncClient(transport=transport, base_url=url, headers=credentials, timeout=timeout))


class KnownCallerMiddleware:
    """ASGI middleware: refuse a caller that the API does not accept (401, 403) before the body is read.

    It checks requests to `paths`, patterns of whole paths. If the API cannot check the caller, the request continues:
    routes with `require_known_caller` answer 503, others call the API themselves.
    """

    def __init__(self, app: ASGIApp, paths: tuple[re.Pattern[str], ...]) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the caller, then pass the request on or refuse it."""
        if scope["type"] == "http" and matching_pattern(scope, self._paths) is not None:
            scope[REFUSAL_KEY] = refused = await caller_refusal(Request(scope))
            if refused is not None and refused.status_code in REFUSAL_TEXTS:
                refusal = detail_response(refused.status_code, refused.detail, {"connection": "close"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def require_known_caller(request: Request) -> None:
    """Raise the HTTPException that `caller_refusal` returns, if any: a FastAPI dependency."""
    refused = request.scope[REFUSAL_KEY] if REFUSAL_KEY in request.scope else await caller_refusal(request)
    if refused is not None:
        raise refused


async def require_identified_caller(request: Request) -> Caller:
    """Return the caller, without a user if the API has no authentication: a FastAPI dependency.

    Raises:
        HTTPException: the API refuses the caller, or it accepts callers without saying who they are.
    """
    await require_known_caller(request)
    caller: Caller = request.scope.get(CALLER_KEY) or current_caller()
    if caller.user is None and CALLER_KEY not in request.scope and may_identify_callers(request.scope):
        raise HTTPException(403, NOT_IDENTIFIED)
    return caller


def may_identify_callers(scope: Scope) -> bool:
    """Return whether the API may have authentication: as configured in our server, True in any other."""
    server_app = scope.get(SERVER_APP_KEY)
    return server_app is None or bool(server_app.state.has_auth)


async def caller_refusal(request: Request) -> HTTPException | None:
    """Ask the API whether it accepts a caller, and return the refusal: 401, 403, or 503 if it cannot check.

    None accepts the caller, as does an API without auth handler, or no API: operators need these routes most when they
    run alone.
    """
    if not may_identify_callers(request.scope):
        return None
    identified: list[Caller] = []
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S), api_client(request) as client:
            check = await client.http.client.get(CALLER_CHECK_PATH, extensions={IDENTIFIED_KEY: identified})
    except httpx.ConnectError:
        request.scope[CALLER_KEY] = ANONYMOUS
        return None
    except (httpx.HTTPError, TimeoutError) as error:
        logger.error("the LangGraph API could not check a caller: {}", type(error).__name__)
        return HTTPException(503, CHECK_FAILED)
    if identified:
        request.scope[CALLER_KEY] = identified[0]
    status = check.status_code
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        logger.error("the LangGraph API could not check a caller: it answered with status {}", status)
        return HTTPException(503, CHECK_FAILED)
    return HTTPException(status, REFUSAL_TEXTS[status]) if status in REFUSAL_TEXTS else None
