"""Chat with an assistant in the terminal: `toolweave chat`.

A turn is streamed from a running server and shown as its events arrive; the questions of an interrupted run are put to
the person at the terminal (S-07).
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID, uuid4

import typer
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from rich.console import Console

from toolweave.api.routes.chat import ChatEvent, ChatEvents
from toolweave.cli.api_client import LocalOption, UrlOption, connect, server_url, talking_to
from toolweave.cli.serving import local_server
from toolweave.cli.terminal import call_text, compact, harmless, shortened, stdout_console, styled
from toolweave.config.settings import load_settings


class Transcript:
    """Writes one chat after the other: tokens as they come, tool calls and results on lines of their own."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._at_line_start = True
        self._written = ""

    def show(self, event: str, data: dict[str, Any]) -> None:
        """Write what one event of a chat says (the events of POST /chat/stream)."""
        if event == "token":
            self._written += data["text"]
            self._write(data["text"])
        elif event == "tool_call":
            self._line(f"  → {call_text(data['name'], data['args'])}", "cyan")
        elif event == "tool_result":
            failed = data["status"] == "error"
            self._line(f"  ← {data['name']}: {shortened(data['content'])}", "red" if failed else "green")
        elif event == "message":
            self._answer(data["content"])
        elif event == "error":
            self._line(f"The run failed: {data['message']}", "bold red")

    def _answer(self, content: str) -> None:
        """End the answer; write it when it was not streamed."""
        if not self._written.endswith(content):
            self._line(content, "")
        self._break()
        self._written = ""

    def _line(self, text: str, style: str) -> None:
        self._break()
        self._console.print(styled(text, style))

    def _write(self, text: str) -> None:
        self._console.print(harmless(text), end="")
        self._console.file.flush()
        self._at_line_start = text.endswith("\n")

    def _break(self) -> None:
        if not self._at_line_start:
            self._console.print()
            self._at_line_start = True


Status = Literal["answered", "interrupted", "failed"]
ENDS: dict[str, Status] = {"message": "answered", "error": "failed"}


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended; `interrupts` are the questions that the run waits for."""

    status: Status
    interrupts: tuple[dict[str, Any], ...] = ()


class Conversation:
    """Turns on one thread, shown as they stream; the thread is made with the first turn."""

    def __init__(self, client: LangGraphClient, assistant: str, thread_id: str, transcript: Transcript) -> None:
        self.thread_id = thread_id
        self._client = client
        self._assistant = assistant
        self._transcript = transcript

    async def pending(self) -> tuple[dict[str, Any], ...]:
        """Give the questions that the thread already waits for; none for a thread that does not exist."""
        try:
            thread = await self._client.threads.get(self.thread_id)
        except NotFoundError:
            return ()
        return tuple(dict(item) for items in (thread.get("interrupts") or {}).values() for item in items)

    async def say(self, message: str) -> TurnEnd:
        """Send a message and show the turn."""
        return await self._turn(input={"messages": [{"role": "user", "content": message}]})

    async def resume(self, answer: Any) -> TurnEnd:
        """Answer what the run waits for and show how it goes on."""
        return await self._turn(command={"resume": answer})

    async def _turn(self, **given: Any) -> TurnEnd:
        events = ChatEvents(self.thread_id, resumes="command" in given)
        end = TurnEnd("failed")
        # Read to the stream's end: leaving earlier would cancel a run that is just being stored.
        async for part in self._client.runs.stream(
            self.thread_id,
            self._assistant,
            **given,
            stream_mode=["messages-tuple", "updates"],
            if_not_exists="create",
            multitask_strategy="enqueue",
            on_disconnect="cancel",
        ):
            if not events.ended:
                end = self._shown(events.translate(part.event, part.data)) or end
        if not events.ended:
            end = self._shown(events.finish()) or end
        return end

    def _shown(self, events: Iterable[ChatEvent]) -> TurnEnd | None:
        """Show events and give the end of the turn if they hold it."""
        end = None
        for name, data in events:
            self._transcript.show(name, data)
            if name == "interrupt":
                end = TurnEnd("interrupted", tuple(data["interrupts"]))
            elif name in ENDS:
                end = TurnEnd(ENDS[name])
        return end


Ask = Callable[[str], str]
# The words of Agent Inbox: what may be chosen, the answer's type, and the permission in the request's config.
CHOICES = {
    "approve": ("accept", "allow_accept"),
    "edit": ("edit", "allow_edit"),
    "reject": ("ignore", "allow_ignore"),
    "respond": ("response", "allow_respond"),
}


def ask_all(interrupts: Sequence[dict[str, Any]], ask: Ask) -> Any:
    """Ask about every interrupt and give the value to resume with: by interrupt id when there are several."""
    answers = [(interrupt.get("id"), ask_one(interrupt.get("value"), ask)) for interrupt in interrupts]
    return answers[0][1] if len(answers) == 1 else dict(answers)


def ask_one(value: Any, ask: Ask) -> Any:
    """Ask about one interrupt: approvals one by one, anything else as a question with a free answer."""
    if isinstance(value, list) and value and all(_is_approval(item) for item in value):
        return [_approval(item, ask) for item in value]
    if _is_approval(value):
        return [_approval(value, ask)]
    question = value if isinstance(value, str) else compact(value)
    return _as_json_or_text(ask(f"{harmless(question)}\nanswer> "))


def _is_approval(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("action_request"), dict)


def _approval(request: dict[str, Any], ask: Ask) -> dict[str, Any]:
    action = request["action_request"]
    arguments = action.get("args") or {}
    permissions = request.get("config") or {}
    allowed = [word for word, (_, permission) in CHOICES.items() if permissions.get(permission, True)]
    shown = request.get("description") or call_text(str(action.get("action")), arguments)
    question = f"{harmless(shown)}\n{' / '.join(allowed)}> "
    word = _one_of(allowed, ask, question)
    kind = CHOICES[word][0]
    if kind == "edit":
        return {"type": kind, "args": {"action": action.get("action"), "args": _object(ask, arguments)}}
    if kind == "response":
        return {"type": kind, "args": _answer(ask, arguments.get("requestedSchema"))}
    return {"type": kind, "args": None}


def _answer(ask: Ask, schema: Any) -> Any:
    """Ask for a text, or for each field where an MCP server asks for several; what is left empty is left out."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties if isinstance(properties, dict) else {}
    if len(fields) < 2:
        return ask("your answer> ")
    given = {name: ask(f"{harmless(name)}> ") for name in fields}
    return {name: _field_value(fields[name], text) for name, text in given.items() if text.strip()}


def _field_value(field: Any, text: str) -> Any:
    kind = field.get("type") if isinstance(field, dict) else None
    if kind == "boolean":
        return {"yes": True, "no": False}.get(text.strip().lower(), _as_json_or_text(text))
    return text if kind == "string" else _as_json_or_text(text)


def _one_of(words: list[str], ask: Ask, question: str) -> str:
    while True:
        given = ask(question).strip().lower()
        found = [word for word in words if given and word.startswith(given)]
        if len(found) == 1 or given in words:
            return given if given in words else found[0]
        question = f"one of {', '.join(words)}> "


def _object(ask: Ask, before: dict[str, Any]) -> dict[str, Any]:
    question = f"arguments as JSON, now {compact(before)}> "
    while True:
        value = _as_json_or_text(ask(question))
        if isinstance(value, dict):
            return value
        question = "a JSON object, such as {}> "


def _as_json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


T = TypeVar("T")
PROMPT = "you> "


def chat(
    message: Annotated[list[str] | None, typer.Argument(help="What to say; without it, a conversation.")] = None,
    url: UrlOption = None,
    thread: Annotated[
        UUID | None, typer.Option("--thread", help="Continue this thread.", show_default="a new one")
    ] = None,
    assistant: Annotated[str, typer.Option("--assistant", help="Assistant id or graph name.")] = "todo_agent",
    local: LocalOption = False,
) -> None:
    """Chat with an assistant; tokens, tool calls and results are shown as they come.

    Without MESSAGE it is a conversation, line by line, that ends with Ctrl-D. Ctrl-C stops the answer that is being
    written.
    """
    with ExitStack() as stack:
        where = stack.enter_context(local_server()) if local else server_url(url, load_settings())
        runner = stack.enter_context(asyncio.Runner())
        client = runner.run(connect(where))
        stack.callback(lambda: runner.run(client.aclose()))
        conversation = Conversation(client, assistant, str(thread or uuid4()), Transcript(stdout_console()))
        talk = Talk(conversation, runner, where)
        failed = talk.say_once(" ".join(message)) if message else talk.until_end()
        if not local:
            sys.stderr.write(f"Continue with: toolweave chat --thread {conversation.thread_id}\n")
    raise typer.Exit(1 if failed else 0)


class Talk:
    """The person's side of a conversation: messages typed, questions answered."""

    def __init__(self, conversation: Conversation, runner: asyncio.Runner, url: str) -> None:
        self._conversation = conversation
        self._runner = runner
        self._url = url

    def say_once(self, message: str) -> bool:
        """Say one thing and answer what is asked; say whether the run failed."""
        try:
            self._settle_pending()
            end = self._settled(self._run(self._conversation.say(message)))
        except EOFError:
            sys.stderr.write("The run waits for an answer.\n")
            return False
        return end.status == "failed"

    def until_end(self) -> bool:
        """Take turns until the input ends; a failed turn is shown and the conversation goes on."""
        try:
            self._settle_pending()
            while True:
                if message := ask(PROMPT).strip():
                    self._one_turn(message)
        except EOFError:
            return False

    def _one_turn(self, message: str) -> None:
        try:
            self._settled(self._run(self._conversation.say(message)))
        except KeyboardInterrupt:
            sys.stderr.write("\nStopped.\n")

    def _settle_pending(self) -> None:
        if pending := self._run(self._conversation.pending()):
            self._settled(TurnEnd("interrupted", pending))

    def _settled(self, end: TurnEnd) -> TurnEnd:
        """Answer what the run asks, until it ends. Raises EOFError when nobody answers."""
        while end.status == "interrupted":
            end = self._run(self._conversation.resume(ask_all(end.interrupts, ask)))
        return end

    def _run(self, turn: Coroutine[Any, Any, T]) -> T:
        with talking_to(self._url):
            return self._runner.run(turn)


def ask(question: str) -> str:
    """Read a line from the person, with the question only where somebody can see it. Raises EOFError at the end."""
    if sys.stdin.isatty():
        return input(question)
    if question != PROMPT:
        sys.stderr.write(question + "\n")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
