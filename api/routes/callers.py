"""Let in whom the LangGraph API behind us knows, where an auth handler does not guard our routes by itself."""

import asyncio
from typing import Annotated

import httpx
from fastapi import Depends, HTTPException
from langgraph_sdk.client import LangGraphClient
from loguru import logger

from toolweave.api.clients import api_client

ANSWER_LIMIT_S = 5.0
# No assistant has such an id: whom the API knows is told so, without its database and the handlers of its resources.
PROBE = "/assistants/search"
REFUSED = {
    401: "These pages are for callers that the LangGraph API knows: send its credentials.",
    403: "The LangGraph API does not let you in.",
}
UNDECIDED = "Whether you may be let in cannot be told right now. Please try again later."


async def known_to_the_api(client: Annotated[LangGraphClient, Depends(api_client)]) -> None:
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
