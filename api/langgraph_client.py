"""Call the LangGraph API from our own routes, wherever they are served, and let in only whom it knows."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator

import httpx
from fastapi import HTTPException, Request
from langgraph_sdk.client import LangGraphClient
from loguru import logger
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolweave.api.errors import detail_response
from toolweave.api.request_bodies import matching_pattern, replay_body

# How long a closed response waits for the application to notice before its task is cancelled.
CLOSE_TIMEOUT_S = 3.0
MAX_UNREAD_MESSAGES = 256
# Set by our server on every request: the whole application, LangGraph API included.
SERVER_APP_KEY = "toolweave.asgi"
# The path below which it serves everything, when langgraph.json gives one.
MOUNT_PREFIX_KEY = "toolweave.prefix"
# Loaded where the official server runs us: its application, and the path below which it serves everything.
OFFICIAL_SERVER, OFFICIAL_CONFIG = "langgraph_api.server", "langgraph_api.config"
# Who asks us asks the API behind us: by these headers it knows whom to let.
CREDENTIAL_HEADERS = ("authorization", "x-api-key", "cookie")
# And it stays in their trace.
FORWARDED_HEADERS = (*CREDENTIAL_HEADERS, "traceparent", "tracestate")
CONNECT_TIMEOUT_S = 5.0
CONNECT_RETRIES = 5
ANSWER_TIMEOUT_S = 5.0
# No assistant has such an id: whom the API knows is told so, without its database and the handlers of its resources.
CALLER_CHECK_PATH = "/assistants/search"
REFUSAL_TEXTS = {
    401: "These pages are for callers that the LangGraph API knows: send its credentials.",
    403: "The LangGraph API does not let you in.",
}
# In the scope of a request that `KnownCallerMiddleware` has asked about: the refusal, or None.
REFUSAL_KEY = "toolweave.caller_refusal"
CHECK_FAILED = "Whether you may be let in cannot be told right now. Please try again later."


class StreamingAsgiTransport(httpx.AsyncBaseTransport):
    """Carry httpx requests into an ASGI application; body chunks arrive as the application sends them.

    Closing the response early tells the application `http.disconnect`. An exception of the application becomes
    httpx.RemoteProtocolError.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Start the application on the request and return once it has sent its status and headers."""
        body, disconnected = await request.aread(), asyncio.Event()
        # None follows the application's last message.
        messages: asyncio.Queue[Message | None] = asyncio.Queue(MAX_UNREAD_MESSAGES)

        async def gone() -> Message:
            await disconnected.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            # After the client has disconnected, messages are dropped.
            if not disconnected.is_set():
                await messages.put(message)

        async def run() -> None:
            try:
                await self._app(_scope(request), replay_body(body, gone), send)
            finally:
                if not disconnected.is_set():
                    await messages.put(None)

        answer = _ResponseBody(messages, disconnected, asyncio.create_task(run()))
        try:
            start = await messages.get()
        except asyncio.CancelledError:
            # Whoever asked has a limit of time and has gone: nobody else would ever end the application's task.
            disconnected.set()
            answer.task.cancel()
            raise
        if start is None:
            await answer.aclose()
            raise httpx.RemoteProtocolError("the application ended without a response", request=request)
        return httpx.Response(start["status"], headers=start.get("headers", []), stream=answer)


class _ResponseBody(httpx.AsyncByteStream):
    """The rest of a response; closing it tells the application that the client is gone."""

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
        """End the application when it does not notice."""
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
    }


def _raise_no_api(request: httpx.Request) -> httpx.Response:
    text = "No LangGraph API serves this application. Start it with toolweave serve, or set TOOLWEAVE_API_URL."
    raise httpx.ConnectError(text, request=request)


def api_client(request: Request) -> LangGraphClient:
    """Make a client of the LangGraph API for one request.

    It asks with the credentials of who asked us, never with ours. With TOOLWEAVE_API_URL it calls that server; in our
    server, and in the official one, the same process without a socket. Where there is none of them, requests fail like
    those to a server that is down.
    """
    credentials = {name: request.headers[name] for name in FORWARDED_HEADERS if name in request.headers}
    url: str | None = request.app.state.settings.api_url
    if url is not None:
        transport: httpx.AsyncBaseTransport = httpx.AsyncHTTPTransport(retries=CONNECT_RETRIES)
    else:
        served_by, prefix = request.scope.get(SERVER_APP_KEY), request.scope.get(MOUNT_PREFIX_KEY, "")
        if served_by is None and OFFICIAL_SERVER in sys.modules:
            # The client that it has for this itself goes past its authentication, whoever asked us.
            served_by = sys.modules[OFFICIAL_SERVER].app
            prefix = getattr(sys.modules[OFFICIAL_CONFIG], "MOUNT_PREFIX", None) or ""
        transport = httpx.MockTransport(_raise_no_api) if served_by is None else StreamingAsgiTransport(served_by)
        url = f"http://127.0.0.1{prefix}"
    timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT_S)
    # The SDK would add a key of ours that it finds in the environment: everybody would be known by it.
    return LangGraphClient(httpx.AsyncClient(transport=transport, base_url=url, headers=credentials, timeout=timeout))


class KnownCallerMiddleware:
    """ASGI middleware: refuse a caller whom the API does not know (401, 403) before the body is read or checked.

    It looks at requests to `paths`, patterns of whole paths. Where the API cannot judge, the request goes on: a
    guarded route refuses it with 503, the others ask the API themselves.
    """

    def __init__(self, app: ASGIApp, paths: tuple[re.Pattern[str], ...]) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the API about the caller, then pass the request on, or refuse it."""
        if scope["type"] == "http" and matching_pattern(scope, self._paths) is not None:
            scope[REFUSAL_KEY] = refused = await caller_refusal(Request(scope))
            if refused is not None and refused.status_code in REFUSAL_TEXTS:
                refusal = detail_response(refused.status_code, refused.detail, {"connection": "close"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def require_known_caller(request: Request) -> None:
    """Raise the HTTPException of `caller_refusal`, if any: a dependency of routes."""
    refused = request.scope[REFUSAL_KEY] if REFUSAL_KEY in request.scope else await caller_refusal(request)
    if refused is not None:
        raise refused


def may_identify_callers(scope: Scope) -> bool:
    """Say whether the API behind us may tell callers apart; elsewhere than in our server nobody knows."""
    served_by = scope.get(SERVER_APP_KEY)
    return served_by is None or bool(served_by.state.has_auth)


async def caller_refusal(request: Request) -> HTTPException | None:
    """Ask the API behind us about a caller; returns the refusal: 401, 403, or 503 when the API cannot judge.

    None lets the caller in: without an auth handler the API knows everybody. Where there is no API, as when these
    routes run alone, nobody is there to ask, and an operator needs them most.
    """
    if not may_identify_callers(request.scope):
        return None
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S), api_client(request) as client:
            status = (await client.http.client.get(CALLER_CHECK_PATH)).status_code
    except httpx.ConnectError:
        return None
    except (httpx.HTTPError, TimeoutError) as error:
        logger.error("the LangGraph API does not say whom it knows: {}", type(error).__name__)
        return HTTPException(503, CHECK_FAILED)
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        logger.error("the LangGraph API does not say whom it knows: it answered with status {}", status)
        return HTTPException(503, CHECK_FAILED)
    return HTTPException(status, REFUSAL_TEXTS[status]) if status in REFUSAL_TEXTS else None
