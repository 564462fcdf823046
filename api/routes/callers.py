"""Let in whom the LangGraph API behind us knows, where an auth handler does not guard our routes by itself.

`CredentialsFirst` asks about requests that may have a body, before the body is read; `known_to_the_api` about the rest.
"""

import asyncio
import re

import httpx
from fastapi import HTTPException, Request
from langgraph_sdk.client import LangGraphClient
from loguru import logger
from starlette.types import ASGIApp, Receive, Scope, Send

from toolweave.api.body_limit import may_have_body
from toolweave.api.clients import SERVED_BY, api_client
from toolweave.api.errors import detail_response

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
        if scope["type"] == "http" and may_have_body(scope, self._paths):
            scope[VERDICT] = verdict = await _verdict(Request(scope))
            if verdict is not None and verdict.status_code in REFUSED:
                refusal = detail_response(verdict.status_code, verdict.detail, {"connection": "close"})
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def _verdict(request: Request) -> HTTPException | None:
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
