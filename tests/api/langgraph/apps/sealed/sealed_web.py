"""Let a test learn that a node waits, and let the node go on."""

from sealed_gates import OPENED, REACHED  # type: ignore[import-not-found]
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def reached(request: Request) -> Response:
    await REACHED[request.path_params["gate"]].wait()
    return Response()


async def opened(request: Request) -> Response:
    OPENED[request.path_params["gate"]].set()
    return Response()


app = Starlette(routes=[Route("/gates/{gate}/reached", reached), Route("/gates/{gate}/open", opened, methods=["POST"])])
