"""Answer what clients ask about tasks: how one stands, to stop it, and which there are (langgraph_api.md section 8)."""

from contextlib import suppress
from typing import Any

from toolweave.api.langgraph.a2a.dialect import TERMINAL, Dialect, State
from toolweave.api.langgraph.a2a.outgoing import artifacts_of, questions_of
from toolweave.api.langgraph.a2a.talking import checked_length, latest
from toolweave.api.langgraph.a2a.task_state import CANCELED, MOST_RUNS, Task, find_task, tasks_on, values_after
from toolweave.api.langgraph.json_rpc import INVALID_PARAMS, RpcError
from toolweave.api.langgraph.request_values import is_uuid
from toolweave.api.langgraph.served import Served
from toolweave.api.langgraph.wire import timestamp
from toolweave.errors import NotFound
from toolweave.runtime.models import TERMINAL as ENDED
from toolweave.runtime.models import Assistant, JsonObject, Thread

NOT_CANCELABLE = -32002
PAGE_SIZE = 50
MOST_TASKS = 100
MOST_THREADS = 1000


async def get_task(
    here: Served, assistant: Assistant, dialect: Dialect, params: JsonObject, *, task_only: bool
) -> JsonObject:
    """Say how a task stands. Raises RpcError when there is none."""
    task = await _named(here, assistant, params)
    return await _shown(here, task, dialect, checked_length(params), task_only=task_only, explains=True)


async def cancel_task(here: Served, assistant: Assistant, dialect: Dialect, params: JsonObject) -> JsonObject:
    """Stop a task that runs, or give up one that waits. Raises RpcError when there is none or it has ended."""
    task = await _named(here, assistant, params)
    if task.state in TERMINAL:
        raise RpcError(NOT_CANCELABLE, "Task is not cancelable in its current state")
    thread_id = task.thread.thread_id
    if task.state == "input-required":
        canceled = [*task.thread.metadata.get(CANCELED, ()), task.name.task_id]
        await here.persistence.threads.patch(thread_id, {CANCELED: canceled})
    for run in task.runs:
        if run.status not in ENDED:
            with suppress(NotFound):
                await here.engine.cancel(thread_id, run.run_id, "interrupt", wait=True)
    return task.name.task(task.name.status(dialect, "canceled", "Task was canceled"), None)


async def list_tasks(
    here: Served, assistant: Assistant, dialect: Dialect, params: JsonObject, *, task_only: bool
) -> JsonObject:
    """List the assistant's tasks, of one context or of the newest threads, the newest first. Raises RpcError."""
    size, offset = _page(params)
    wanted = params.get("status")
    tasks = [
        task
        for thread in await _threads(here, assistant, params.get("contextId"))
        for task in tasks_on(assistant, thread, await here.persistence.runs.list(thread.thread_id, limit=MOST_RUNS))
        if isinstance(task.runs[-1].metadata.get("a2a"), dict) and wanted in (None, dialect.state(task.state))
    ]
    page = tasks[offset : offset + size]
    length = checked_length(params)
    return {
        "tasks": [await _shown(here, task, dialect, length, task_only=task_only, explains=False) for task in page],
        "totalSize": len(tasks),
        "pageSize": len(page),
        "nextPageToken": str(offset + size) if offset + size < len(tasks) else "",
    }


async def _named(here: Served, assistant: Assistant, params: JsonObject) -> Task:
    task_id, context_id = params.get("id"), params.get("contextId")
    if not task_id:
        raise RpcError(INVALID_PARAMS, "Missing required parameter: id (task_id)")
    if not isinstance(task_id, str) or not isinstance(context_id, str | None):
        raise RpcError(INVALID_PARAMS, "Task id and contextId must be strings")
    return await find_task(here, assistant, task_id, context_id)


async def _shown(
    here: Served, task: Task, dialect: Dialect, length: int | None, *, task_only: bool, explains: bool
) -> JsonObject:
    values = await values_after(here, task.run)
    texts: dict[State, str] = {
        "completed": "Task completed successfully",
        "canceled": "Task was canceled",
        "failed": f"Task failed with status: {task.run.status}",
    }
    text = texts.get(task.state) if explains else None
    status = task.name.status(dialect, task.state, text, at=timestamp(task.run.updated_at))
    history = task.name.history(dialect, values, since=task.first_message_id if task_only else None)
    artifacts: list[JsonObject] = []
    if task.state == "completed":
        artifacts = artifacts_of(values, task.run.assistant_id)
    elif task.state == "input-required":
        artifacts = questions_of(task.questions)
    return task.name.task(status, latest(history, length), artifacts=artifacts)


def _page(params: JsonObject) -> tuple[int, int]:
    size: Any = params.get("pageSize", PAGE_SIZE)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= MOST_TASKS:
        raise RpcError(INVALID_PARAMS, f"pageSize must be an integer between 1 and {MOST_TASKS}.")
    token = params.get("pageToken") or "0"
    if not isinstance(token, str) or not token.isascii() or not token.isdigit() or len(token) > 9:
        raise RpcError(INVALID_PARAMS, "pageToken is not one that was given out")
    return size, int(token)


async def _threads(here: Served, assistant: Assistant, context_id: Any) -> list[Thread]:
    repository = here.persistence.threads
    if context_id is None:
        marks: JsonObject = {"assistant_id": assistant.assistant_id, "a2a": {}}
        return await repository.search(metadata=marks, limit=MOST_THREADS)
    if not isinstance(context_id, str) or not is_uuid(context_id):
        return []
    try:
        return [await repository.get(context_id.lower())]
    except NotFound:
        return []
