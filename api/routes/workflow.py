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
RUN_FAILED = "The workflow failed. Please try again; the server's log has the reason."
CLIENT_CLOSED_REQUEST = 499


class WorkflowRequest(CheckedWorkflowInput):
    """The instruction, its tools, and whether the response includes a summary in words."""

    model_config = ConfigDict(extra="forbid")


@router.post("/workflow", response_model=WorkflowOutput, responses={401: {}, 403: {}, 502: {}, 503: {}})
async def workflow(
    body: WorkflowRequest, request: Request, client: Annotated[LangGraphClient, Depends(api_client)]
) -> Response:
    """Choose one of the tools, call its API, and return the outcome: 200 for failed stages, too (W-02, D-11).

    Nothing of the run is stored; it ends when its client disconnects. `error_stage` and `error` describe a failure.
    """
    async with run_until_first(_run_workflow(body, client), wait_for_disconnect(request.receive)) as (working, _):
        if not working.done():
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        return json_response(working.result())


async def _run_workflow(body: WorkflowRequest, client: LangGraphClient) -> Any:
    try:
        async with client:
            # The run is not stored, so no checkpoint per stage is needed.
            result = await client.runs.wait(
                None, ASSISTANT, input=body.model_dump(), on_disconnect="cancel", raise_error=False, durability="exit"
            )
    except httpx.HTTPStatusError as error:
        raise _http_error(error) from None
    except (httpx.HTTPError, LangGraphError) as error:
        logger.opt(exception=error).error("workflow: the LangGraph API cannot be reached")
        raise HTTPException(503, UNREACHABLE) from None
    if not isinstance(result, dict) or "__error__" in result:
        logger.error("workflow: the run failed: {}", _error_kind(result))
        raise HTTPException(502, RUN_FAILED)
    return result


def _http_error(error: httpx.HTTPStatusError) -> HTTPException:
    status = error.response.status_code
    if status in REFUSAL_TEXTS:
        return HTTPException(status, REFUSAL_TEXTS[status])
    logger.error("workflow: the LangGraph API answered with status {}", status)
    return HTTPException(503, UNREACHABLE) if status in (429, 503) else HTTPException(502, RUN_FAILED)


def _error_kind(result: Any) -> str:
    error = result.get("__error__") if isinstance(result, dict) else None
    return str(error.get("error")) if isinstance(error, dict) else type(result).__name__
