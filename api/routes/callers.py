"""Let in whom the LangGraph API behind us knows, where an auth handler does not guard our routes by itself."""

import asyncio
from typing import Annotated

import httpx
from fastapi import Depends, HTTPException
from langgraph_sdk.client import LangGraphClient

from toolweave.api.clients import api_client

ANSWER_LIMIT_S = 5.0


async def known_to_the_api(client: Annotated[LangGraphClient, Depends(api_client)]) -> None:
    """Refuse with 401 a caller whose credentials the API refuses.

    Without an auth handler the API knows everybody. Where no API answers, as when these routes run alone, nobody is
    there to ask, and an operator needs them most.
    """
    try:
        async with asyncio.timeout(ANSWER_LIMIT_S), client:
            answer = await client.http.client.post("/assistants/search", json={"limit": 1})
    except (httpx.HTTPError, TimeoutError):
        return
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        raise HTTPException(401, "These pages are for callers that the LangGraph API knows: send its credentials.")
