"""Give our own routes a client of the LangGraph API, wherever they happen to be served."""

import httpx
from fastapi import Request
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from toolweave.api.in_process import StreamingAsgiTransport

# Set by our server on every request: the whole application, LangGraph API included.
SERVED_BY = "toolweave.asgi"
# The path below which it serves everything, when langgraph.json gives one.
PREFIX = "toolweave.prefix"
# Who asks us asks the API behind us: by these headers it knows whom to let.
CREDENTIALS = ("authorization", "x-api-key", "cookie")
# And it stays in their trace.
PASSED_ON = (*CREDENTIALS, "traceparent", "tracestate")


def api_client(request: Request) -> LangGraphClient:
    """Make a client of the LangGraph API for one request.

    In our server it calls the same process without a socket; with TOOLWEAVE_API_URL it calls that server; under the
    official server its own in-process client is used.
    """
    url: str | None = request.app.state.settings.api_url
    if url is not None:
        return get_client(url=url)
    served_by = request.scope.get(SERVED_BY)
    if served_by is None:
        return get_client()
    transport = StreamingAsgiTransport(served_by)
    http = httpx.AsyncClient(
        transport=transport,
        base_url=f"http://127.0.0.1{request.scope.get(PREFIX, '')}",
        headers={name: request.headers[name] for name in PASSED_ON if name in request.headers},
        timeout=httpx.Timeout(None),
    )
    return LangGraphClient(http)
