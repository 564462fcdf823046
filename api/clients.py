"""Give our own routes a client of the LangGraph API, wherever they happen to be served."""

import sys

import httpx
from fastapi import Request
from langgraph_sdk.client import LangGraphClient

from toolweave.api.in_process import StreamingAsgiTransport

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
