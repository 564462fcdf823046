"""Read and show the messages and tasks of A2A, in both of its revisions (langgraph_api.md section 8)."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from langchain_core.runnables import RunnableConfig

from toolweave.api.langgraph.json_rpc import INVALID_PARAMS, RpcError
from toolweave.api.langgraph.requests import is_uuid
from toolweave.api.langgraph.served import Served
from toolweave.errors import NotFound
from toolweave.runtime.codec import dumps, loads, utc_now
from toolweave.runtime.models import TERMINAL, Assistant, JsonObject, Run, Thread, timestamp
from toolweave.runtime.runs.execution import states_of

State = Literal["submitted", "working", "input-required", "completed", "canceled", "failed"]
TERMINAL_STATES: frozenset[State] = frozenset({"completed", "canceled", "failed"})
Operation = Literal["send", "stream", "get", "cancel", "list"]
USER_ROLES = frozenset({"user", "ROLE_USER"})
CONTENT_NOT_SUPPORTED = -32005
SUPPORTED = "A2A agents support 'text', 'data', and 'file' parts only."
MEDIA = ("image", "audio", "video")
TASK_NOT_FOUND = -32001
MOST_RUNS = 1000
# In a thread's metadata: the waiting tasks that were cancelled, which leaves no other trace.
CANCELED = "a2a_canceled"
NOT_CANCELABLE = -32002
PAGE_SIZE = 50
MOST_TASKS = 100
MOST_THREADS = 1000


@dataclass(frozen=True, slots=True)
class Revision:
    """One revision: what it puts before roles and states; since 1.0 an answer names the task it holds."""

    role_prefix: str = ""
    state_prefix: str = ""
    names_task: bool = False

    def role(self, *, user: bool) -> str:
        """Say who speaks."""
        word = "user" if user else "agent"
        return f"{self.role_prefix}{word.upper()}" if self.role_prefix else word

    def state(self, state: State) -> str:
        """Say how a task stands."""
        return f"{self.state_prefix}{state.upper().replace('-', '_')}" if self.state_prefix else state

    def task_answer(self, task: object) -> object:
        """Wrap a task that answers a message."""
        return {"task": task} if self.names_task else task


EARLIER = Revision()
FIRST = Revision("ROLE_", "TASK_STATE_", names_task=True)
METHODS: Mapping[str, tuple[Operation, Revision]] = {
    "message/send": ("send", EARLIER),
    "message/stream": ("stream", EARLIER),
    "tasks/get": ("get", EARLIER),
    "tasks/cancel": ("cancel", EARLIER),
    "SendMessage": ("send", FIRST),
    "SendStreamingMessage": ("stream", FIRST),
    "GetTask": ("get", FIRST),
    "CancelTask": ("cancel", FIRST),
    "ListTasks": ("list", FIRST),
}


@dataclass(frozen=True, slots=True)
class Incoming:
    """A checked message: what it says as chat content (None without any), its data, and which task it belongs to."""

    message_id: str
    from_user: bool
    content: str | list[JsonObject] | None
    data: JsonObject | None
    context_id: str | None
    task_id: str | None
    shown: JsonObject

    def graph_input(self) -> JsonObject:
        """Give the graph's input: the data, and what was said as a message unless the data brings messages."""
        if self.content is None:
            return self.data or {}
        role = "human" if self.from_user else "ai"
        said = {"role": role, "content": self.content, "id": self.message_id}
        return {"messages": [said], **(self.data or {})}

    def answer(self) -> Any:
        """Give what the message answers a question of the graph with."""
        return self.content if self.data is None else self.data


def incoming(params: JsonObject) -> Incoming:
    """Check the `message` of a call's params.

    Raises:
        RpcError: a field is missing or of the wrong type, or a part is of an unknown kind.
    """
    message = params.get("message")
    if not isinstance(message, dict) or not message:
        raise RpcError(INVALID_PARAMS, "Missing or invalid 'message' in params")
    for name in ("messageId", "role", "parts"):
        if message.get(name) is None:
            raise RpcError(INVALID_PARAMS, f"Missing required '{name}' in message")
    parts = message["parts"]
    if not isinstance(parts, list):
        raise RpcError(INVALID_PARAMS, "Invalid params: 'parts' must be an array")
    if not parts:
        raise RpcError(INVALID_PARAMS, "Message must contain at least one part")
    blocks, data = _read(parts)
    return Incoming(
        message_id=str(message["messageId"]),
        from_user=message["role"] in USER_ROLES if isinstance(message["role"], str) else False,
        content=_content(blocks),
        data=data,
        context_id=_text_or_none(message, "contextId"),
        task_id=_text_or_none(message, "taskId"),
        shown={"role": message["role"], "parts": parts},
    )


def _read(parts: Sequence[Any]) -> tuple[list[JsonObject], JsonObject | None]:
    blocks: list[JsonObject] = []
    data: JsonObject | None = None
    for part in parts:
        if not isinstance(part, dict):
            raise RpcError(CONTENT_NOT_SUPPORTED, f"Each message part must be an object. {SUPPORTED}")
        if "data" in part:
            if not isinstance(part["data"], dict):
                raise RpcError(CONTENT_NOT_SUPPORTED, "DataPart must contain a JSON object in the 'data' field")
            data = {**(data or {}), **part["data"]}
        else:
            blocks.append(_block(part))
    return blocks, data


def _block(part: JsonObject) -> JsonObject:
    """Make a content block of a text or file part."""
    if "text" in part:
        if not isinstance(part["text"], str):
            raise RpcError(INVALID_PARAMS, "TextPart must contain text in the 'text' field")
        return {"type": "text", "text": part["text"]}
    file = part.get("file")
    if isinstance(file, dict):
        return _file(file.get("uri"), file.get("bytes"), file.get("mimeType"), file.get("name"))
    if "url" in part or "raw" in part:
        return _file(part.get("url"), part.get("raw"), part.get("mediaType"), part.get("filename"))
    raise RpcError(CONTENT_NOT_SUPPORTED, f"Unsupported part type. {SUPPORTED}")


def _file(url: Any, content: Any, media_type: Any, name: Any) -> JsonObject:
    if not isinstance(url, str) and not isinstance(content, str):
        raise RpcError(CONTENT_NOT_SUPPORTED, "FilePart must contain a file with 'uri' or 'bytes'")
    kind = str(media_type).partition("/")[0]
    block: JsonObject = {"type": kind if kind in MEDIA else "file"}
    block |= {"url": url} if isinstance(url, str) else {"base64": content}
    if isinstance(media_type, str):
        block["mime_type"] = media_type
    if isinstance(name, str):
        block["extras"] = {"filename": name}
    return block


def _content(blocks: list[JsonObject]) -> str | list[JsonObject] | None:
    if not blocks:
        return None
    if all(block["type"] == "text" for block in blocks):
        return "\n".join(block["text"] for block in blocks)
    return blocks


def _text_or_none(message: JsonObject, name: str) -> str | None:
    value = message.get(name)
    if value is not None and not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be a string")
    return value or None


@dataclass(frozen=True, slots=True)
class TaskName:
    """Which task is spoken of: its thread, and the run that began it."""

    context_id: str
    run_id: str

    @property
    def task_id(self) -> str:
        """Give the id that clients know."""
        return f"{self.context_id}:{self.run_id}"

    def ids(self) -> JsonObject:
        """Give the fields that name the task in everything about it."""
        return {"taskId": self.task_id, "contextId": self.context_id}

    def task(self, status: JsonObject, history: Sequence[JsonObject] | None, **also: object) -> JsonObject:
        """Give the task itself; a history of None is left out."""
        shown: JsonObject = {"kind": "task", "id": self.task_id, "contextId": self.context_id}
        if history is not None:
            shown["history"] = list(history)
        return {**shown, "status": status, **also}

    def message(self, role: str, parts: Sequence[JsonObject], message_id: str | None = None) -> JsonObject:
        """Give one message of the task."""
        message_id = message_id or str(uuid4())
        return {"kind": "message", "role": role, "parts": list(parts), "messageId": message_id, **self.ids()}

    def status(self, revision: Revision, state: State, text: str | None = None, at: str | None = None) -> JsonObject:
        """Say how the task stands, now unless a moment is given."""
        status: JsonObject = {"state": revision.state(state)}
        if text is not None:
            status["message"] = self.message(revision.role(user=False), [text_part(text)])
        return {**status, "timestamp": at or timestamp(utc_now())}

    def history(self, revision: Revision, values: Any, *, since: str | None = None) -> list[JsonObject]:
        """Give the messages of a state; `since` names the one that begins the task, when only its own are wanted."""
        messages = messages_of(values)
        begins = [place for place, message in enumerate(messages) if since is not None and message.get("id") == since]
        shown = []
        for message in messages[begins[-1] if begins else 0 :]:
            if parts := parts_of(message):
                role = revision.role(user=message.get("type") == "human")
                shown.append(self.message(role, parts, message.get("id")))
        return shown


def text_part(text: str) -> JsonObject:
    """Give a text part."""
    return {"kind": "text", "text": text}


def messages_of(values: Any) -> list[JsonObject]:
    """Give the chat messages of a state, if it has any."""
    messages = values.get("messages") if isinstance(values, dict) else None
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def parts_of(message: JsonObject) -> list[JsonObject]:
    """Give a message's content as parts; none when it only calls tools."""
    content = message.get("content")
    if message.get("type") == "tool":
        outcome = {
            "toolCallId": message.get("tool_call_id"),
            "content": content,
            "name": message.get("name"),
            "status": message.get("status"),
        }
        return [{"kind": "data", "data": {"tool_results": [outcome]}}]
    if isinstance(content, str):
        return [text_part(content)] if content else []
    return [_part(block) for block in content] if isinstance(content, list) else []


def artifacts_of(values: Any, assistant_id: str) -> list[JsonObject]:
    """Give a finished task's artifact: the last thing an assistant said, or the whole result as JSON."""
    spoken = [message for message in messages_of(values) if message.get("type") in ("ai", "AIMessageChunk")]
    parts = parts_of(spoken[-1]) if spoken else []
    return [
        {
            "artifactId": str(uuid4()),
            "name": "Assistant Response",
            "description": f"Response from assistant {assistant_id}",
            "parts": parts or [text_part(dumps(values).decode())],
        }
    ]


def questions_of(interrupts: Sequence[JsonObject]) -> list[JsonObject]:
    """Give one artifact for each question that a task waits with."""
    return [
        {
            "artifactId": str(uuid4()),
            "name": "Interrupt",
            "description": "Agent requires input to continue",
            "parts": [{"kind": "data", "data": {"id": interrupt.get("id"), "value": interrupt.get("value")}}],
        }
        for interrupt in interrupts
    ]


def _part(block: Any) -> JsonObject:
    if isinstance(block, str):
        return text_part(block)
    if block.get("type") == "text":
        return text_part(str(block.get("text")))
    source = {"uri": "url", "bytes": "base64"}
    file = {name: block[key] for name, key in source.items() if key in block}
    if not file:
        return {"kind": "data", "data": block}
    if "mime_type" in block:
        file["mimeType"] = block["mime_type"]
    if name := (block.get("extras") or {}).get("filename"):
        file["name"] = name
    return {"kind": "file", "file": file}


@dataclass(frozen=True, slots=True)
class Task:
    """A task: what names it, its runs from the newest to the one that began it, and its thread."""

    name: TaskName
    runs: tuple[Run, ...]
    thread: Thread
    newest_on_thread: bool

    @property
    def run(self) -> Run:
        """Give the run that says how the task stands."""
        return self.runs[0]

    @property
    def first_message_id(self) -> str | None:
        """Name the message that began the task."""
        begun: JsonObject = self.runs[-1].metadata.get("a2a") or {}
        found = begun.get("message_id")
        return found if isinstance(found, str) else None

    @property
    def questions(self) -> list[JsonObject]:
        """Give what the task waits to be answered; only the thread's newest run can wait."""
        waiting = self.thread.interrupts if self.newest_on_thread and self.thread.status == "interrupted" else None
        return [interrupt for interrupts in (waiting or {}).values() for interrupt in interrupts]

    @property
    def state(self) -> State:
        """Say how it stands."""
        if self.name.task_id in self.thread.metadata.get(CANCELED, ()):
            return "canceled"
        if self.run.status == "success":
            return "input-required" if self.questions else "completed"
        states: dict[str, State] = {"pending": "submitted", "running": "working", "interrupted": "canceled"}
        return states.get(self.run.status, "failed")


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One call of a client to an assistant; `task_only` leaves out what was said before the task."""

    here: Served
    assistant: Assistant
    revision: Revision
    params: JsonObject
    task_only: bool


async def find_task(call: AgentCall, task_id: str, context_id: str | None = None) -> Task:
    """Find one of the assistant's tasks. Raises RpcError when there is none, or not in this context."""
    thread_id, _, run_id = task_id.partition(":")
    where = f" in context '{context_id}'" if context_id is not None else ""
    missing = RpcError(TASK_NOT_FOUND, f"Task not found: {task_id}{where}")
    if not is_uuid(thread_id) or not is_uuid(run_id) or context_id not in (None, thread_id):
        raise missing
    try:
        thread = await call.here.persistence.threads.get(thread_id)
        on_thread = await call.here.persistence.runs.list(thread_id, limit=MOST_RUNS)
    except NotFound:
        raise missing from None
    for task in tasks_on(call.assistant, thread, on_thread):
        if task.name.task_id == task_id:
            return task
    raise missing


def tasks_on(assistant: Assistant, thread: Thread, runs: list[Run]) -> list[Task]:
    """Gather the assistant's runs on a thread (newest first) into tasks, the newest first."""
    by_id: dict[str, list[Run]] = {}
    for run in runs:
        if run.assistant_id == assistant.assistant_id:
            marks: Any = run.metadata.get("a2a")
            continued = marks.get("task_id") if isinstance(marks, dict) else None
            by_id.setdefault(continued or f"{run.thread_id}:{run.run_id}", []).append(run)
    return [
        Task(TaskName(thread.thread_id, task_id.rpartition(":")[2]), tuple(mine), thread, mine[0] is runs[0])
        for task_id, mine in by_id.items()
    ]


async def values_after(here: Served, run: Run) -> Any:
    """Give the state that a run left, or has reached; None when it has written none."""
    config: RunnableConfig = {"configurable": {"thread_id": run.thread_id, "checkpoint_ns": ""}}
    async with here.graphs.open(run.graph_id, config) as graph:
        states = await states_of(graph, config, limit=1, filter={"run_id": run.run_id})
    return loads(dumps(states[0].values)) if states else None


def checked_length(fields: JsonObject) -> int | None:
    """Read `historyLength`: how many messages to show, None for all. Raises RpcError."""
    length = fields.get("historyLength")
    if length is not None and (not isinstance(length, int) or isinstance(length, bool) or length < 0):
        raise RpcError(INVALID_PARAMS, "historyLength must be a non-negative integer")
    return length


def latest(history: list[JsonObject], length: int | None) -> list[JsonObject] | None:
    """Keep the newest messages; none at all when none are wanted."""
    if length is None:
        return history
    return history[-length:] if length else None


async def get_task(call: AgentCall) -> JsonObject:
    """Say how a task stands. Raises RpcError when there is none."""
    task = await _named(call)
    return await _shown(call, task, checked_length(call.params), explains=True)


async def cancel_task(call: AgentCall) -> JsonObject:
    """Stop a task that runs, or give up one that waits. Raises RpcError when there is none or it has ended."""
    task, here = await _named(call), call.here
    if task.state in TERMINAL_STATES:
        raise RpcError(NOT_CANCELABLE, "Task is not cancelable in its current state")
    thread_id = task.thread.thread_id
    if task.state == "input-required":
        canceled = [*task.thread.metadata.get(CANCELED, ()), task.name.task_id]
        await here.persistence.threads.patch(thread_id, {CANCELED: canceled})
    for run in task.runs:
        if run.status not in TERMINAL:
            with suppress(NotFound):
                await here.engine.cancel(thread_id, run.run_id, "interrupt", wait=True)
    return task.name.task(task.name.status(call.revision, "canceled", "Task was canceled"), None)


async def list_tasks(call: AgentCall) -> JsonObject:
    """List the assistant's tasks, of one context or of the newest threads, the newest first. Raises RpcError."""
    size, offset = _page(call.params)
    wanted, runs = call.params.get("status"), call.here.persistence.runs
    tasks = [
        task
        for thread in await _threads(call)
        for task in tasks_on(call.assistant, thread, await runs.list(thread.thread_id, limit=MOST_RUNS))
        if isinstance(task.runs[-1].metadata.get("a2a"), dict) and wanted in (None, call.revision.state(task.state))
    ]
    page = tasks[offset : offset + size]
    length = checked_length(call.params)
    return {
        "tasks": [await _shown(call, task, length, explains=False) for task in page],
        "totalSize": len(tasks),
        "pageSize": len(page),
        "nextPageToken": str(offset + size) if offset + size < len(tasks) else "",
    }


async def _named(call: AgentCall) -> Task:
    task_id, context_id = call.params.get("id"), call.params.get("contextId")
    if not task_id:
        raise RpcError(INVALID_PARAMS, "Missing required parameter: id (task_id)")
    if not isinstance(task_id, str) or not isinstance(context_id, str | None):
        raise RpcError(INVALID_PARAMS, "Task id and contextId must be strings")
    return await find_task(call, task_id, context_id)


async def _shown(call: AgentCall, task: Task, length: int | None, *, explains: bool) -> JsonObject:
    values = await values_after(call.here, task.run)
    texts: dict[State, str] = {
        "completed": "Task completed successfully",
        "canceled": "Task was canceled",
        "failed": f"Task failed with status: {task.run.status}",
    }
    text = texts.get(task.state) if explains else None
    status = task.name.status(call.revision, task.state, text, at=timestamp(task.run.updated_at))
    history = task.name.history(call.revision, values, since=task.first_message_id if call.task_only else None)
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


async def _threads(call: AgentCall) -> list[Thread]:
    repository, context_id = call.here.persistence.threads, call.params.get("contextId")
    if context_id is None:
        marks: JsonObject = {"assistant_id": call.assistant.assistant_id, "a2a": {}}
        return await repository.search(metadata=marks, limit=MOST_THREADS)
    if not isinstance(context_id, str) or not is_uuid(context_id):
        return []
    try:
        return [await repository.get(context_id.lower())]
    except NotFound:
        return []
