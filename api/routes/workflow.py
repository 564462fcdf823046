"""Run the workflow graph for one request: POST /workflow (W-02)."""

from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Depends, HTTPException, Request, Response
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import LangGraphError
from loguru import logger
from pydantic import ConfigDict

from toolweave.api.errors import json_response
from toolweave.api.langgraph_client import REFUSAL_TEXTS, api_client
from toolweave.api.request_bodies import StrictJsonRoute, run_until_first, wait_for_disconnect
from toolweave.nodes.workflow.state import CheckedWorkflowInput, WorkflowOutput

router = APIRouter(tags=["workflow"], route_class=StrictJsonRoute)

ASSISTANT = "workflow"
UNREACHABLE = "The workflow cannot be reached right now. Please try again later."
BROKEN = "The workflow broke off. Please try again; the operator finds the reason in the log."
GONE = 499


class WorkflowRequest(CheckedWorkflowInput):
    """What is to be done, with which tools, and whether the answer is to be told in words."""

    model_config = ConfigDict(extra="forbid")


@router.post("/workflow", response_model=WorkflowOutput, responses={401: {}, 403: {}, 502: {}, 503: {}})
async def workflow(
    wanted: WorkflowRequest, request: Request, client: Annotated[LangGraphClient, Depends(api_client)]
) -> Response:
    """Choose one of the tools, call its API, and give what came of it: 200 for failed stages, too (W-02, D-11).

    The run keeps nothing and ends when its client leaves. `error_stage` and `error` say what failed.
    """
    async with run_until_first(_answer(wanted, client), wait_for_disconnect(request.receive)) as (working, _):
        if not working.done():
            return Response(status_code=GONE)
        return json_response(working.result())


async def _answer(wanted: WorkflowRequest, client: LangGraphClient) -> Any:
    try:
        async with client:
            # Nobody can look at the run's stages later, so they are not written down one by one.
            answer = await client.runs.wait(
                None,
                ASSISTANT,
                input=wanted.model_dump(),
                on_disconnect="cancel",
                raise_error=False,
                durability="exit",
            )
    except httpx.HTTPStatusError as error:
        raise _refused(error) from None
    except (httpx.HTTPError, LangGraphError) as error:
        logger.opt(exception=error).error("workflow: the LangGraph API cannot be reached")
        raise HTTPException(503, UNREACHABLE) from None
    if not isinstance(answer, dict) or "__error__" in answer:
        logger.error("workflow: the run failed: {}", _kind(answer))
        raise HTTPException(502, BROKEN)
    return answer


def _refused(error: httpx.HTTPStatusError) -> HTTPException:
    status = error.response.status_code
    if status in REFUSAL_TEXTS:
        return HTTPException(status, REFUSAL_TEXTS[status])
    logger.error("workflow: the LangGraph API answered with status {}", status)
    return HTTPException(503, UNREACHABLE) if status in (429, 503) else HTTPException(502, BROKEN)


def _kind(answer: Any) -> str:
    error = answer.get("__error__") if isinstance(answer, dict) else None
    return str(error.get("error")) if isinstance(error, dict) else type(answer).__name__
