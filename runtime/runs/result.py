"""Answer for a run that has ended: its thread's values, or its error, in the form of `wait` and `join`."""

from toolweave.runtime.models import Run
from toolweave.runtime.persistence.opening import Persistence
from toolweave.runtime.streaming.codec import dumps

UNKNOWN_ERROR = {"error": "RunError", "message": "The run failed; a later run has replaced its error."}


async def result_of(persistence: Persistence, run: Run) -> bytes:
    """Give the JSON body for a run read from the database (langgraph_api.md 5.2). Raises NotFound."""
    thread = await persistence.threads.get(run.thread_id)
    if run.status == "error":
        return dumps({"__error__": thread.error or UNKNOWN_ERROR})
    values = thread.values
    waiting = [interrupt for interrupts in (thread.interrupts or {}).values() for interrupt in interrupts]
    if waiting:
        values = {
            **(values if isinstance(values, dict) else {}),
            "__interrupt__": [{**interrupt, "response_schema": None} for interrupt in waiting],
        }
    return dumps(values)
