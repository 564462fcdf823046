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
from toolweave.api.request_bodies import first_match

# How long a closed response waits for the application to notice before its task is cancelled.
LEAVE_SECONDS = 3.0
UNREAD_MESSAGES = 256
# Set by our server on every request: the whole application, LangGraph API included.
SERVED_BY = "toolweave.asgi"
# The path below which it serves everything, when langgraph.json gives one.
PREFIX = "toolweave.prefix"
# Loaded where the official server runs us: its application, and the path below which it serves everything.
OFFICIAL_SERVER, OFFICIAL_CONFIG = "langgraph_api.server", "langgraph_api.config"
# Who asks us asks the API behind us: by these headers it knows whom to let.
CREDENTIALS = ("authorization", "x-api-key", "cookie")
# And it stays in their trace.
PASSED_ON = (*CREDENTIALS, "traceparent", "tracestate")
CONNECT_S = 5.0
CONNECT_RETRIES = 5
ANSWER_LIMIT_S = 5.0
# No assistant has such an id: whom the API knows is told so, without its database and the handlers of its resources.
PROBE = "/assistants/search"
REFUSED = {
    401: "These pages are for callers that the LangGraph API knows: send its credentials.",
    403: "The LangGraph API does not let you in.",
}
# In the scope of a request that `CredentialsFirst` has asked about: the refusal, or None.
VERDICT = "toolweave.verdict"
UNDECIDED = "Whether you may be let in cannot be told right now. Please try again later."


class StreamingAsgiTransport(httpx.AsyncBaseTransport):
    """Carry httpx requests into an ASGI application; body chunks arrive as the application sends them.

    Closing the response early tells the application `http.disconnect`. An exception of the application becomes
    httpx.RemoteProtocolError.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Start the application on the request and return once it has sent its status and headers."""
        exchange = _Exchange(await request.aread())
        exchange.task = asyncio.create_task(_run(self._app, _scope(request), exchange))
        try:
            start = await exchange.next_message()
        except asyncio.CancelledError:
            # Whoever asked has a limit of time and has gone: nobody else would ever end the application's task.
            exchange.left.set()
            exchange.task.cancel()
            raise
        if start is None:
            await exchange.leave()
            raise httpx.RemoteProtocolError("the application ended without a response", request=request)
        return httpx.Response(start["status"], headers=start.get("headers", []), stream=_Body(exchange))


class _Exchange:
    """One request and its response, between the client's task and the application's."""

    def __init__(self, body: bytes) -> None:
        self.body: bytes | None = body
        self.left = asyncio.Event()
        self.messages: asyncio.Queue[Message | None] = asyncio.Queue(UNREAD_MESSAGES)
        self.task: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """Give the request body once, then nothing until the client leaves."""
        if self.body is not None:
            body, self.body = self.body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass a message on; after the client has left, drop it."""
        if not self.left.is_set():
            await self.messages.put(message)

    async def next_message(self) -> Message | None:
        """Wait for the application's next message; None when it has ended."""
        return await self.messages.get()

    async def leave(self) -> None:
        """Tell the application that the client is gone, and end it when it does not notice."""
        self.left.set()
        while not self.messages.empty():
            self.messages.get_nowait()
        if self.task is not None and not self.task.done():
            await asyncio.wait([self.task], timeout=LEAVE_SECONDS)
            self.task.cancel()
            await asyncio.wait([self.task])


class _Body(httpx.AsyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        self._complete = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._exchange.next_message()
            if message is None:
                if not self._complete:
                    raise httpx.RemoteProtocolError("the application ended in the middle of a response")
                return
            if message["type"] == "http.response.body":
                self._complete = not message.get("more_body", False)
                if chunk := message.get("body"):
                    yield chunk

    async def aclose(self) -> None:
        await self._exchange.leave()


async def _run(app: ASGIApp, scope: Scope, exchange: _Exchange) -> None:
    try:
        await app(scope, exchange.receive, exchange.send)
    finally:
        if not exchange.left.is_set():
            await exchange.messages.put(None)


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


class NoApi(httpx.AsyncBaseTransport):
    """The way to an API that is not there."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Refuse the request.

        Raises:
            ConnectError: always.
        """
        text = "No LangGraph API serves this application. Start it with toolweave serve, or set TOOLWEAVE_API_URL."
        raise httpx.ConnectError(text, request=request)


def api_client(request: Request) -> LangGraphClient:
    """Make a client of the LangGraph API for one request.

    It asks with the credentials of who asked us, never with ours. With TOOLWEAVE_API_URL it calls that server; in our
    server, and in the official one, the same process without a socket. Where there is none of them, requests fail like
    those to a server that is down.
    """
    credentials = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    url: str | None = request.app.state.settings.api_url
    if url is not None:
        # The SDK would add a key of ours that it finds in the environment: everybody would be known by it.
        way = httpx.AsyncHTTPTransport(retries=CONNECT_RETRIES)
        patience = httpx.Timeout(None, connect=CONNECT_S)
        return LangGraphClient(httpx.AsyncClient(transport=way, base_url=url, headers=credentials, timeout=patience))
    served_by, prefix = request.scope.get(SERVED_BY), request.scope.get(PREFIX, "")
    if served_by is None and OFFICIAL_SERVER in sys.modules:
        # The client that it has for this itself goes past its authentication, whoever asked us.
        served_by = sys.modules[OFFICIAL_SERVER].app
        prefix = getattr(sys.modules[OFFICIAL_CONFIG], "MOUNT_PREFIX", None) or ""
    transport = StreamingAsgiTransport(served_by) if served_by is not None else NoApi()
    http = httpx.AsyncClient(
        transport=transport,
        base_url=f"http://127.0.0.1{prefix}",
        headers=credentials,
        timeout=httpx.Timeout(None),
    )
    return LangGraphClient(http)


class CredentialsFirst:
    """ASGI middleware: refuse a caller whom the API does not know (401, 403) before the body is read or checked.

    It looks at requests to `paths`, patterns of whole paths. Where the API cannot judge, the request goes on: a
    guarded route refuses it with 503, the others ask the API themselves.
    """

    def __init__(self, app: ASGIApp, paths: tuple[re.Pattern[str], ...]) -> None:
        self._app = app
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the API about the caller, then pass the request on, or refuse it."""
        if scope["type"] == "http" and first_match(scope, self._paths) is not None:
            scope[VERDICT] = refused = await verdict(Request(scope))
            if refused is not None and refused.status_code in REFUSED:
                refusal = detail_response(refused.status_code, refused.detail, {"connection": "close"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def verdict(request: Request) -> HTTPException | None:
    """Ask the API behind us about a caller; gives the refusal, None for whom it lets in."""
    if not may_know_callers(request.scope):
        return None
    try:
        await ask_the_api(api_client(request))
    except HTTPException as refused:
        return refused
    return None


async def known_to_the_api(request: Request) -> None:
    """Refuse a caller whom the API does not know: a route's dependency. Raises HTTPException as `ask_the_api`."""
    if VERDICT not in request.scope:
        await ask_the_api(api_client(request))
    elif (refused := request.scope[VERDICT]) is not None:
        raise refused


def may_know_callers(scope: Scope) -> bool:
    """Say whether the API behind us may tell callers apart; elsewhere than in our server nobody knows."""
    served_by = scope.get(SERVED_BY)
    return served_by is None or bool(served_by.state.knows_callers)


async def ask_the_api(client: LangGraphClient) -> None:
    """Refuse a caller whose credentials the API refuses with 401 or 403, and with 503 whom it cannot judge.

    Without an auth handler the API knows everybody. Where there is no API, as when these routes run alone, nobody is
    there to ask, and an operator needs them most.
    """
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S), client:
            status = (await client.http.client.get(PROBE)).status_code
    except httpx.ConnectError:
        return
    except (httpx.HTTPError, TimeoutError) as error:
        logger.error("the LangGraph API does not say whom it knows: {}", type(error).__name__)
        raise HTTPException(503, UNDECIDED) from None
    if status in REFUSED:
        raise HTTPException(status, REFUSED[status])
    if status == httpx.codes.TOO_MANY_REQUESTS or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        logger.error("the LangGraph API does not say whom it knows: it answered with status {}", status)
        raise HTTPException(503, UNDECIDED)
