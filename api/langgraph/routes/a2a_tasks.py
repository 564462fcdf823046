"""Convert A2A messages and tasks, in both of its revisions (langgraph_api.md section 8)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.json_rpc import RequestId, RpcError, result_message
from toolweave.api.langgraph.json_schema import BodySchema
from toolweave.api.langgraph.requests import Body, is_uuid
from toolweave.api.langgraph.services import ApiServices
from toolweave.errors import NotFound
from toolweave.runtime.codec import dumps, loads, utc_now
from toolweave.runtime.models import TERMINAL_STATUSES, Assistant, JsonObject, Page, Run, Thread, timestamp
from toolweave.runtime.runs.execution import read_states

TaskState = Literal["submitted", "working", "input-required", "completed", "canceled", "failed"]
TERMINAL_STATES: frozenset[TaskState] = frozenset({"completed", "canceled", "failed"})
Operation = Literal["send", "stream", "get", "cancel", "list"]
CONTENT_NOT_SUPPORTED = -32005
TASK_NOT_FOUND = -32001
NOT_CANCELABLE = -32002
MAX_RUNS_PER_THREAD = 1000
MAX_LISTED_THREADS = 1000
# Thread metadata key for the ids of tasks that were cancelled while they waited; no run records that.
CANCELED_TASKS_KEY = "a2a_canceled"
CANCELED_TEXT = "Task was canceled"
# The operation of each method, and whether it is of revision 1.0.
METHODS: Mapping[str, tuple[Operation, bool]] = {
    "message/send": ("send", False),
    "message/stream": ("stream", False),
    "tasks/get": ("get", False),
    "tasks/cancel": ("cancel", False),
    "SendMessage": ("send", True),
    "SendStreamingMessage": ("stream", True),
    "GetTask": ("get", True),
    "CancelTask": ("cancel", True),
    "ListTasks": ("list", True),
}
_MESSAGE, _TASK = body_schema("A2aMessageParams"), body_schema("A2aTaskParams")
PARAMS_SCHEMAS: Mapping[Operation, BodySchema] = {
    **dict.fromkeys(("send", "stream"), _MESSAGE),
    **dict.fromkeys(("get", "cancel"), _TASK),
    "list": body_schema("A2aTaskListParams"),
}


def parse_parts(parts: Sequence[Any]) -> tuple[str | None, JsonObject | None]:
    """Return a message's joined texts and merged data, None if absent. Raises RpcError for other parts."""
    texts: list[str] = []
    data: JsonObject | None = None
    for part in parts:
        fields = part if isinstance(part, dict) else {}
        if isinstance(fields.get("data"), dict):
            data = {**(data or {}), **fields["data"]}
        elif "text" in fields and "data" not in fields:
            texts.append(fields["text"])
        else:
            raise RpcError(CONTENT_NOT_SUPPORTED, "A2A agents support 'text' parts and 'data' parts that are objects.")
    return "\n".join(texts) if texts else None, data


@dataclass(frozen=True, slots=True)
class TaskRef:
    """A reference to a task: its thread and its first run. `is_v1` selects the wire format of revision 1.0."""

    is_v1: bool
    context_id: str
    run_id: str

    @property
    def task_id(self) -> str:
        """Return the task's id in the API."""
        return f"{self.context_id}:{self.run_id}"

    def id_fields(self) -> JsonObject:
        """Return the fields that identify the task in its messages and events."""
        return {"taskId": self.task_id, "contextId": self.context_id}

    def state_name(self, state: TaskState) -> str:
        """Return a state's name in the wire format."""
        return f"TASK_STATE_{state.upper().replace('-', '_')}" if self.is_v1 else state

    def task(self, status: JsonObject, history: Sequence[JsonObject] | None, **fields: object) -> JsonObject:
        """Return the task object; a history of None is left out."""
        result: JsonObject = {"kind": "task", "id": self.task_id, "contextId": self.context_id}
        if history is not None:
            result["history"] = list(history)
        return {**result, "status": status, **fields}

    def message(self, parts: Sequence[JsonObject], message_id: str | None = None, *, user: bool = False) -> JsonObject:
        """Return a message of the task."""
        role = "user" if user else "agent"
        return {
            "kind": "message",
            "role": f"ROLE_{role.upper()}" if self.is_v1 else role,
            "parts": list(parts),
            "messageId": message_id or str(uuid4()),
            **self.id_fields(),
        }

    def status(self, state: TaskState, text: str | None = None, at: str | None = None) -> JsonObject:
        """Return the task's status object; `at` is its time, by default now."""
        message = {} if text is None else {"message": self.message([text_part(text)])}
        return {"state": self.state_name(state), **message, "timestamp": at or timestamp(utc_now())}


def text_part(text: str) -> JsonObject:
    """Return a text part."""
    return {"kind": "text", "text": text}


def chat_messages(values: Any) -> list[JsonObject]:
    """Return the chat messages of a state, if it has any."""
    messages = values.get("messages") if isinstance(values, dict) else None
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def message_parts(message: JsonObject) -> list[JsonObject]:
    """Return a message's content as A2A parts: text as text, other blocks and tool results as data."""
    content = message.get("content")
    if message.get("type") == "tool":
        outcome = {
            "toolCallId": message.get("tool_call_id"),
            "content": content,
            "name": message.get("name"),
            "status": message.get("status"),
        }
        return [{"kind": "data", "data": {"tool_results": [outcome]}}]
    blocks = content if isinstance(content, list) else [content] if content and isinstance(content, str) else []
    return [_block_part({"type": "text", "text": block} if isinstance(block, str) else block) for block in blocks]


def _block_part(block: JsonObject) -> JsonObject:
    return text_part(str(block.get("text"))) if block.get("type") == "text" else {"kind": "data", "data": block}


def _artifact(name: str, description: str, parts: Sequence[JsonObject]) -> JsonObject:
    return {"artifactId": str(uuid4()), "name": name, "description": description, "parts": parts}


@dataclass(frozen=True, slots=True)
class Task:
    """A task with its reference, its runs (newest first) and its thread."""

    ref: TaskRef
    runs: tuple[Run, ...]
    thread: Thread
    is_newest_on_thread: bool

    @property
    def first_message_id(self) -> str | None:
        """Return the id of the message that started the task."""
        marks: JsonObject = self.runs[-1].metadata.get("a2a") or {}
        message_id = marks.get("message_id")
        return message_id if isinstance(message_id, str) else None

    @property
    def interrupts(self) -> list[JsonObject]:
        """Return the task's pending interrupts; only the thread's newest run can have some."""
        waiting = self.thread.interrupts if self.is_newest_on_thread and self.thread.status == "interrupted" else None
        return [interrupt for interrupts in (waiting or {}).values() for interrupt in interrupts]

    @property
    def state(self) -> TaskState:
        """Return the task's state, which follows from its newest run."""
        status = self.runs[0].status
        if self.ref.task_id in self.thread.metadata.get(CANCELED_TASKS_KEY, ()):
            return "canceled"
        if status == "success":
            return "input-required" if self.interrupts else "completed"
        states: dict[str, TaskState] = {"pending": "submitted", "running": "working", "interrupted": "canceled"}
        return states.get(status, "failed")


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One call of a client to an assistant; `task_only` leaves out the messages before the task."""

    services: ApiServices
    assistant: Assistant
    request_id: RequestId
    is_v1: bool
    params: Body
    task_only: bool

    def encode_result(self, result: JsonObject) -> bytes:
        """Encode the call's result."""
        return result_message(self.request_id, result)

    def task(
        self,
        ref: TaskRef,
        first_message_id: str | None,
        state: TaskState,
        values: Any,
        interrupts: Sequence[JsonObject],
        *,
        text: str | None,
        at: str | None = None,
    ) -> JsonObject:
        """Return a task with the requested length of its history."""
        messages = chat_messages(values)
        since = first_message_id if self.task_only else None
        starts = [index for index, message in enumerate(messages) if since and message.get("id") == since]
        history = [
            ref.message(parts, message.get("id"), user=message.get("type") == "human")
            for message in messages[starts[-1] if starts else 0 :]
            if (parts := message_parts(message))
        ]
        length = self.params.get("historyLength", self.params.get("configuration", {}).get("historyLength"))
        recent = history if length is None else history[-int(length) :] if length else None
        return ref.task(ref.status(state, text, at), recent, artifacts=self.artifacts(state, values, interrupts))

    def artifacts(self, state: TaskState, values: Any, interrupts: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the pending interrupts, or the last AI message, or the whole result as JSON."""
        if state == "input-required":
            questions = ({"id": each.get("id"), "value": each.get("value")} for each in interrupts)
            text = "Agent requires input to continue"
            return [_artifact("Interrupt", text, [{"kind": "data", "data": question}]) for question in questions]
        if state != "completed":
            return []
        answers = [message for message in chat_messages(values) if message.get("type") in ("ai", "AIMessageChunk")]
        parts = (message_parts(answers[-1]) if answers else []) or [text_part(dumps(values).decode())]
        return [_artifact("Assistant Response", f"Response from assistant {self.assistant.assistant_id}", parts)]


async def find_task(call: AgentCall, task_id: str, context_id: str | None = None) -> Task:
    """Return one of the assistant's tasks. Raises RpcError if there is none, or it is not in this context."""
    thread_id, _, run_id = task_id.partition(":")
    if is_uuid(thread_id) and is_uuid(run_id) and context_id in (None, thread_id):
        with suppress(NotFound):
            thread = await call.services.persistence.threads.get(thread_id)
            for task in await thread_tasks(call, thread):
                if task.ref.task_id == task_id:
                    return task
    where = f" in context '{context_id}'" if context_id is not None else ""
    raise RpcError(TASK_NOT_FOUND, f"Task not found: {task_id}{where}")


async def thread_tasks(call: AgentCall, thread: Thread) -> list[Task]:
    """Group the assistant's runs on a thread into tasks, newest first."""
    runs = await call.services.persistence.runs.list(thread.thread_id, limit=MAX_RUNS_PER_THREAD)
    by_id: dict[str, list[Run]] = {}
    for run in runs:
        if run.assistant_id == call.assistant.assistant_id:
            marks: Any = run.metadata.get("a2a")
            continued_id = marks.get("task_id") if isinstance(marks, dict) else None
            by_id.setdefault(continued_id or f"{run.thread_id}:{run.run_id}", []).append(run)
    return [
        Task(
            TaskRef(call.is_v1, thread.thread_id, task_id.rpartition(":")[2]),
            tuple(task_runs),
            thread,
            task_runs[0] is runs[0],
        )
        for task_id, task_runs in by_id.items()
    ]


async def run_values(services: ApiServices, run: Run) -> Any:
    """Return the newest state that a run has written; None if it has written none."""
    config: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    async with services.graphs.open(run.graph_id, config) as graph:
        states = await read_states(graph, config, limit=1, filter={"run_id": run.run_id})
    return loads(dumps(states[0].values)) if states else None


async def get_task(call: AgentCall) -> JsonObject:
    """Return a task. Raises RpcError if there is none."""
    task = await _find_requested_task(call)
    texts: dict[TaskState, str] = {
        "completed": "Task completed successfully",
        "canceled": CANCELED_TEXT,
        "failed": f"Task failed with status: {task.runs[0].status}",
    }
    return await _read_task_json(call, task, texts.get(task.state))


async def cancel_task(call: AgentCall) -> JsonObject:
    """Cancel a running or waiting task. Raises RpcError if there is none or it has ended."""
    task, services = await _find_requested_task(call), call.services
    if task.state in TERMINAL_STATES:
        raise RpcError(NOT_CANCELABLE, "Task is not cancelable in its current state")
    thread_id = task.thread.thread_id
    if task.state == "input-required":
        canceled = [*task.thread.metadata.get(CANCELED_TASKS_KEY, ()), task.ref.task_id]
        await services.persistence.threads.patch(thread_id, {CANCELED_TASKS_KEY: canceled})
    for run in task.runs:
        if run.status not in TERMINAL_STATUSES:
            with suppress(NotFound):
                await services.engine.cancel_run(thread_id, run.run_id, "interrupt", wait=True)
    return task.ref.task(task.ref.status("canceled", CANCELED_TEXT), None)


async def list_tasks(call: AgentCall) -> JsonObject:
    """List the assistant's tasks on one context or on the newest threads, newest first."""
    size, offset = call.params.get("pageSize", 50), int(call.params.get("pageToken") or 0)
    state = call.params.get("status")
    tasks = [
        task
        for thread in await _list_threads(call)
        for task in await thread_tasks(call, thread)
        if isinstance(task.runs[-1].metadata.get("a2a"), dict) and state in (None, task.ref.state_name(task.state))
    ]
    page = tasks[offset : offset + size]
    return {
        "tasks": [await _read_task_json(call, task, None) for task in page],
        "totalSize": len(tasks),
        "pageSize": len(page),
        "nextPageToken": str(offset + size) if offset + size < len(tasks) else "",
    }


async def _find_requested_task(call: AgentCall) -> Task:
    return await find_task(call, call.params.fields["id"], call.params.get("contextId"))


async def _read_task_json(call: AgentCall, task: Task, text: str | None) -> JsonObject:
    values, at = await run_values(call.services, task.runs[0]), timestamp(task.runs[0].updated_at)
    return call.task(task.ref, task.first_message_id, task.state, values, task.interrupts, text=text, at=at)


async def _list_threads(call: AgentCall) -> list[Thread]:
    repository, context_id = call.services.persistence.threads, call.params.get("contextId")
    if context_id is None:
        marks: JsonObject = {"assistant_id": call.assistant.assistant_id, "a2a": {}}
        return await repository.search(Page(MAX_LISTED_THREADS), metadata=marks)
    try:
        return [await repository.get(context_id.lower())]
    except NotFound:
        return []
