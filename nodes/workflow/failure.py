"""Route a stage's failure to the one error node, which writes what users may read of it (W-02, D-11, W-10)."""

import asyncio
import time
import traceback
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, Literal, TypeVar, cast

from langgraph.errors import NodeError, NodeTimeoutError
from langgraph.types import Command
from loguru import logger

from toolweave.errors import ApiCallFailed, StageFailed
from toolweave.nodes.model_turn import usage_summary
from toolweave.nodes.workflow.state import Failure, Stage, WorkflowMetadata, WorkflowState, WorkflowUpdate, new_state
from toolweave.redact import redact, redact_text

Node = TypeVar("Node", bound=Callable[..., Awaitable[Any]])
_SECONDS_ATTRIBUTE = "_toolweave_seconds"


def limit_seconds(node: Node, seconds: float) -> Node:
    """Wrap a node with a time limit; `seconds_until_failure` reads from its exception how long it ran.

    LangGraph's own limits exclude synchronous calls of the graph.
    """

    @wraps(node)
    async def run(*args: Any, **kwargs: Any) -> Any:
        started = time.monotonic()
        try:
            async with asyncio.timeout(seconds) as limit:
                return await node(*args, **kwargs)
        except Exception as error:
            elapsed = time.monotonic() - started
            if limit.expired() and isinstance(error, TimeoutError):
                raise NodeTimeoutError(node.__name__, elapsed, kind="run", run_timeout=seconds) from None
            setattr(error, _SECONDS_ATTRIBUTE, elapsed)
            raise

    return cast("Node", run)


def seconds_until_failure(error: object) -> float | None:
    """Return how long a node ran before it failed; None if unknown, as after a crash."""
    return error.elapsed if isinstance(error, NodeTimeoutError) else getattr(error, _SECONDS_ATTRIBUTE, None)


# LangGraph finds the error parameter by its annotation; its own types do not show that.
ErrorHandler = Callable[..., Awaitable[Command[Literal["error"]]]]
_STAGE_MESSAGES: dict[Stage, str] = {
    "tool_retrieval": "The tools could not be looked up.",
    "llm_selection": "The model could not choose a request.",
    "api_execution": "The request could not be carried out.",
    "response_formatting": "The answer could not be formatted.",
}


def failure_handler(stage: Stage) -> ErrorHandler:
    """Return the error handler of a stage's node: it logs the failure and continues at the error node."""

    async def handle(state: WorkflowState, error: NodeError) -> Command[Literal["error"]]:
        # After a crash before the handler ran, only the exception's text is stored.
        raised: BaseException | str = error.error
        _log_failure(stage, state, raised)
        update: WorkflowUpdate = new_state() if stage == "tool_retrieval" else {}
        update["failure"] = Failure(stage=stage, message=failure_message(stage, raised))
        if isinstance(raised, StageFailed) and raised.model_usage:
            update["model_usage"] = [*raised.model_usage]
        if isinstance(raised, ApiCallFailed):
            update["raw_response"] = raised.response
        return Command(goto="error", update=update)

    return handle


async def report_failure(state: WorkflowState) -> WorkflowUpdate:
    """Write the outcome of a failure: "success" with a warning if only formatting failed, else "error"."""
    failure = state["failure"] or Failure(stage="tool_retrieval", message=_STAGE_MESSAGES["tool_retrieval"])
    usage = WorkflowMetadata(usage=usage_summary(state["model_usage"]))
    outcome: WorkflowUpdate = {"error_stage": failure["stage"], "metadata": usage}
    if failure["stage"] != "response_formatting":
        return {**outcome, "status": "error", "error": failure["message"]}
    warnings = [text for text in (state["warning"], failure["message"]) if text]
    return {**outcome, "status": "success", "error": None, "formatted_response": None, "warning": " ".join(warnings)}


def failure_message(stage: Stage, raised: BaseException | str) -> str:
    """Return the text that users may read about a failure; an unexpected one is described by its stage only."""
    if isinstance(raised, StageFailed):
        return str(raised)
    if isinstance(raised, NodeTimeoutError):
        return f"{_STAGE_MESSAGES[stage]} It took longer than {raised.timeout:g} s."
    return f"{_STAGE_MESSAGES[stage]} The reason is in the server's log."


def _log_failure(stage: Stage, state: WorkflowState, raised: BaseException | str) -> None:
    seconds = seconds_until_failure(raised)
    tool_ids = state.get("tool_ids") or [candidate["tool_id"] for candidate in state.get("candidates") or ()]
    logger.bind(
        stage=stage,
        tool_ids=redact(tool_ids),
        request=redact(state.get("http_spec")),
        seconds=None if seconds is None else round(seconds, 3),
    ).error("the workflow failed at {}: {}\n{}", stage, redact_text(str(raised)), _format_trace(raised))


def _format_trace(raised: BaseException | str) -> str:
    """Format the stack trace: loguru's own would by default show the values of variables."""
    lines = [raised] if isinstance(raised, str) else traceback.format_exception(raised)
    return "".join(redact_text(line) for line in lines).rstrip()
