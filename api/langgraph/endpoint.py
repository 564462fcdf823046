"""Describe endpoints once: the router serves them, /openapi.json publishes them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

JSON = "application/json"
Handler = Callable[[Request], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter or header of an endpoint, for the published description."""

    name: str
    schema: Mapping[str, Any]
    where: str = "query"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One operation: its method and path, who answers it, what it takes and gives.

    `body` and `answer` name components; `answer` None means that a success has no JSON body; with a
    `media_type` of another kind the client may ask for either. `errors` are the
    statuses beside `status` (which is that of a success); `error_answers` names the component of those whose body is
    not the usual `{"detail": …}`.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    tag: str
    body: str | None = None
    answer: str | None = None
    answers_list: bool = False
    media_type: str = JSON
    status: int = 200
    errors: tuple[int, ...] = (422,)
    query: tuple[Query, ...] = field(default=())
    error_answers: Mapping[int, str] = field(default_factory=dict)


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


def resources(endpoints: Iterable[Endpoint]) -> list[Resource]:
    """Group endpoints by path, in order of first appearance."""
    by_path: dict[str, list[Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, []).append(endpoint)
    return [Resource(path, group) for path, group in by_path.items()]


async def _never_called(_request: Request) -> Response:
    raise NotImplementedError
