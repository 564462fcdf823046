"""Chat with an assistant in the terminal: `toolweave chat`.

Each turn is streamed from a running server and printed as its events arrive. When a run is interrupted, the user
answers its questions at the terminal (S-07).
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid4

import typer
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from rich.console import Console

from toolweave.api.routes.chat import STREAM_END, TURN_END_EVENTS, ChatEvent, ChatEventTranslator, message_text
from toolweave.cli import api_client
from toolweave.cli.configuration import McpOption
from toolweave.cli.http_server import local_server
from toolweave.cli.terminal import call_text, compact_json, parse_json, sanitize, shorten, stdout_console, styled
from toolweave.config.logs import wrap_for_terminal
from toolweave.config.settings import load_settings
from toolweave.errors import RequestError
from toolweave.files import make_file

if sys.platform != "win32":
    import readline

T = TypeVar("T")
PROMPT = "you> "
HISTORY_FILE = "chat_history"
MAX_HISTORY_LINES = 1_000
COMMANDS = {
    "/help": "List these commands.",
    "/tools": "List the MCP servers and their tools.",
    "/model": "Show the model.",
    "/threads": "List the latest threads; continue one with --thread.",
    "/new": "Start a new thread.",
    "/quit": "Leave the chat.",
}
UNKNOWN = "unknown: the server does not report it"
MAX_THREADS = 10
MAX_TEXT_CHARS = 60


class Transcript:
    """Print the events of chats: tokens as they arrive, tool calls and results on separate lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._at_line_start = True
        self._written = ""

    def show_event(self, event: str, data: dict[str, Any]) -> None:
        """Print one event of a chat (an event of POST /chat/stream)."""
        if event == "token":
            self._written += data["text"]
            self._write_text(data["text"])
        elif event == "tool_call":
            self._write_line(f"  → {call_text(data['name'], data['args'])}", "cyan")
        elif event == "tool_result":
            failed = data["status"] == "error"
            self._write_line(f"  ← {data['name']}: {shorten(data['content'])}", "red" if failed else "green")
        elif event == "message":
            self._end_answer(data["content"])
        elif event == "error":
            self._write_line(f"The run failed: {data['message']}", "bold red")

    def _end_answer(self, content: str) -> None:
        """End the answer; print it first if it was not streamed."""
        if not self._written.endswith(content):
            self._write_line(content, "")
        self._end_line()
        self._written = ""

    def _write_line(self, text: str, style: str) -> None:
        self._end_line()
        self._console.print(styled(text, style))

    def _write_text(self, text: str) -> None:
        self._console.print(sanitize(text), end="")
        self._console.file.flush()
        self._at_line_start = text.endswith("\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._console.print()
            self._at_line_start = True


@dataclass
class Conversation:
    """A conversation on one thread: send the user's messages, print the streamed turns, answer interrupts.

    The first turn creates the thread.
    """

    client: LangGraphClient
    assistant: str
    thread_id: str
    runner: asyncio.Runner
    url: str
    transcript: Transcript = field(default_factory=lambda: Transcript(stdout_console()))

    def introduce(self) -> None:
        """Print the model, the assistant, the tools and the thread."""
        self._note(self._run(banner_text(self.client, self.assistant, self.thread_id)))

    def send_message(self, message: str) -> bool:
        """Answer pending interrupts and send one message; return whether its run failed."""
        try:
            self._answer_pending_interrupts()
            return self._send(message) == "error"
        except EOFError:
            sys.stderr.write("The run waits for an answer.\n")
            return False

    def send_lines_until_eof(self) -> bool:
        """Send line by line until the input ends; a failed turn or request is printed and does not end the chat."""
        stopped = False
        try:
            self._answer_pending_interrupts()
            while True:
                try:
                    message = read_line(PROMPT).strip()
                    stopped = False
                    if message.startswith("/") and sys.stdin.isatty():
                        self._run_command(message)
                    elif message:
                        self._send(message)
                except RequestError as error:
                    self._note(f"{error.headline}: {error}")
                except KeyboardInterrupt:
                    if stopped:
                        return False
                    stopped = True
                    sys.stderr.write("\nStopped. Ctrl-C again leaves the chat.\n")
        except EOFError:
            return False

    def _run_command(self, text: str) -> None:
        """Run a command of the chat, such as /help. Raises EOFError for /quit."""
        name = text.split(maxsplit=1)[0]
        if name == "/quit":
            raise EOFError
        if name == "/new":
            self.thread_id = str(uuid4())
        describe = {"/tools": tools_text, "/model": model_text, "/threads": threads_text}.get(name)
        if describe:
            output = self._run(describe(self.client))
        elif name == "/help":
            output = "\n".join(f"  {each:<9} {about}" for each, about in COMMANDS.items())
        elif name == "/new":
            output = f"  thread {self.thread_id}"
        else:
            output = f"There is no command {name}. {api_client.did_you_mean(name, COMMANDS)}"
        self._note(output)

    @staticmethod
    def _note(text: str) -> None:
        sys.stderr.write(wrap_for_terminal(f"{sanitize(text)}\n", sys.stderr, " " * 8))

    def _send(self, message: str) -> str:
        return self._finish_run(self._run(self._run_turn(input={"messages": [{"role": "user", "content": message}]})))

    def _answer_pending_interrupts(self) -> None:
        if pending := self._run(self._pending_interrupts()):
            self._finish_run(("interrupt", {"interrupts": pending}))

    def _finish_run(self, end: ChatEvent) -> str:
        """Answer the run's interrupts until it ends; return the name of its last event. Raises EOFError."""
        while end[0] == "interrupt":
            answer = answer_interrupts(end[1]["interrupts"], read_line)
            end = self._run(self._run_turn(command={"resume": answer}))
        return end[0]

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with api_client.translate_request_errors(self.url):
            return self.runner.run(coroutine)

    async def _pending_interrupts(self) -> list[dict[str, Any]]:
        """Return the thread's pending interrupts; none if the thread does not exist."""
        try:
            thread = await self.client.threads.get(self.thread_id)
        except NotFoundError:
            return []
        return [dict(item) for items in (thread.get("interrupts") or {}).values() for item in items]

    async def _run_turn(self, **request: Any) -> ChatEvent:
        """Run the assistant, print its events, and return the event that ends the turn."""
        events = ChatEventTranslator(self.thread_id, is_resume="command" in request, with_details=True)
        end: ChatEvent = ("error", {})
        # Read to the stream's end: closing it earlier would cancel a run that is just being stored.
        async for part in self.client.runs.stream(
            self.thread_id,
            self.assistant,
            **request,
            stream_mode=["messages-tuple", "updates"],
            if_not_exists="create",
            multitask_strategy="enqueue",
            on_disconnect="cancel",
        ):
            end = self._show_events(events.translate(part.event, part.data)) or end
        return self._show_events(events.translate(STREAM_END, None)) or end

    def _show_events(self, events: Iterable[ChatEvent]) -> ChatEvent | None:
        """Print events; return the one that ends the turn if it is among them."""
        end = None
        for name, data in events:
            self.transcript.show_event(name, data)
            if name in TURN_END_EVENTS:
                end = (name, data)
        return end


ReadLine = Callable[[str], str]
# Agent Inbox: the response type of each choice, and its permission in the request's config.
CHOICES = {
    "approve": ("accept", "allow_accept"),
    "edit": ("edit", "allow_edit"),
    "reject": ("ignore", "allow_ignore"),
    "respond": ("response", "allow_respond"),
}


def answer_interrupts(interrupts: Sequence[dict[str, Any]], read_line: ReadLine) -> Any:
    """Ask the user about every interrupt; return the resume value, by interrupt id if there are several."""
    answers = [(interrupt.get("id"), answer_interrupt(interrupt.get("value"), read_line)) for interrupt in interrupts]
    return answers[0][1] if len(answers) == 1 else dict(answers)


def answer_interrupt(value: Any, read_line: ReadLine) -> Any:
    """Ask the user about one interrupt: each approval request by itself, any other value as a free question."""
    if isinstance(value, list) and value and all(_is_approval_request(item) for item in value):
        return [_answer_approval(item, read_line) for item in value]
    if _is_approval_request(value):
        return [_answer_approval(value, read_line)]
    question = value if isinstance(value, str) else compact_json(value)
    return _parse_json_or_text(read_line(f"{sanitize(question)}\nanswer> "))


def _is_approval_request(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("action_request"), dict)


def _answer_approval(request: dict[str, Any], read_line: ReadLine) -> dict[str, Any]:
    action = request["action_request"]
    arguments = action.get("args") or {}
    permissions = request.get("config") or {}
    allowed = [word for word, (_, permission) in CHOICES.items() if permissions.get(permission, True)]
    text = request.get("description") or call_text(str(action.get("action")), arguments)
    question = f"{sanitize(text)}\n{' / '.join(allowed)}> "
    word = _read_choice(allowed, read_line, question)
    kind = CHOICES[word][0]
    if kind == "edit":
        return {"type": kind, "args": {"action": action.get("action"), "args": _read_object(read_line, arguments)}}
    if kind == "response":
        return {"type": kind, "args": _read_response(read_line, arguments.get("requestedSchema"))}
    return {"type": kind, "args": None}


def _read_response(read_line: ReadLine, schema: Any) -> Any:
    """Read a text, or each field if an MCP server requests several; empty fields are left out."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    fields = properties if isinstance(properties, dict) else {}
    if len(fields) < 2:
        return read_line("your answer> ")
    texts = {name: read_line(f"{sanitize(name)}> ") for name in fields}
    return {name: parse_field(fields[name], text) for name, text in texts.items() if text.strip()}


def parse_field(field: Any, text: str) -> Any:
    """Parse a text by the JSON schema of its field: a string stays, other types are JSON."""
    schema = field if isinstance(field, dict) else {}
    choices = schema.get("anyOf")
    kinds = [
        each.get("type") for each in (schema, *(choices if isinstance(choices, list) else ())) if isinstance(each, dict)
    ]
    if kinds == ["boolean"]:
        return {"yes": True, "no": False}.get(text.strip().lower(), _parse_json_or_text(text))
    return text if "string" in kinds else _parse_json_or_text(text)


def _read_choice(words: list[str], read_line: ReadLine, question: str) -> str:
    while True:
        typed = read_line(question).strip().lower()
        matches = [word for word in words if typed and word.startswith(typed)]
        if len(matches) == 1 or typed in words:
            return typed if typed in words else matches[0]
        question = f"one of {', '.join(words)}> "


def _read_object(read_line: ReadLine, current: dict[str, Any]) -> dict[str, Any]:
    question = f"arguments as JSON, now {compact_json(current)}> "
    while True:
        value = _parse_json_or_text(read_line(question))
        if isinstance(value, dict):
            return value
        question = "a JSON object, such as {}> "


def _parse_json_or_text(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return text


def chat(
    message: Annotated[list[str] | None, typer.Argument(help="The message; without it, an interactive chat.")] = None,
    url: api_client.UrlOption = None,
    thread: Annotated[
        UUID | None, typer.Option("--thread", help="Continue this thread.", show_default="a new one")
    ] = None,
    assistant: api_client.AssistantOption = None,
    local: api_client.LocalOption = False,
    mcp: McpOption = None,
) -> None:
    """Chat with an assistant; tokens, tool calls and results are printed as they arrive.

    Without MESSAGE the conversation is interactive, line by line, until Ctrl-D. Ctrl-C stops the current answer, and
    twice the chat. On a terminal, /help lists the commands.
    """
    settings, local = load_settings(), api_client.is_local(url, mcp, local=local)
    with ExitStack() as stack:
        server = stack.enter_context(local_server(mcp)) if local else api_client.server_url(url, settings)
        runner = stack.enter_context(asyncio.Runner())
        client = runner.run(api_client.connect(server))
        stack.callback(lambda: runner.run(client.aclose()))
        with api_client.translate_request_errors(server):
            chosen = runner.run(api_client.choose_assistant(client, assistant))
        conversation = Conversation(client, chosen, str(thread or uuid4()), runner, server)
        if message:
            failed = conversation.send_message(" ".join(message))
        else:
            if sys.stdin.isatty():
                stack.enter_context(line_history(settings.data_dir))
                conversation.introduce()
            failed = conversation.send_lines_until_eof()
        if not local:
            sys.stderr.write(f"{api_client.continue_command(conversation.thread_id, assistant, url)}\n")
    raise typer.Exit(1 if failed else 0)


async def banner_text(client: LangGraphClient, assistant: str, thread_id: str) -> str:
    """Return the lines that introduce an interactive chat."""
    servers = (await api_client.read_health(client)).get("servers", {})
    ready = [f"{name} ({server['tools']})" for name, server in servers.items() if server["state"] == "ready"]
    others = [name for name, server in servers.items() if server["state"] not in ("ready", "disabled")]
    failed = [f"{name} ({servers[name]['state']})" for name in others]
    lines = {
        "model": await model_text(client),
        "assistant": assistant,
        "tools": ", ".join([*ready, *failed]) or ("none" if servers else UNKNOWN),
        "thread": thread_id,
    }
    width = max(map(len, lines))
    return "\n".join(f"  {name:<{width}}  {text}" for name, text in lines.items()) + "\n  /help lists the commands."


async def model_text(client: LangGraphClient) -> str:
    """Return the name of the server's model."""
    return str((await api_client.read_health(client)).get("model", UNKNOWN))


async def tools_text(client: LangGraphClient) -> str:
    """Return one line per MCP server and one per tool that it offers."""
    lines = []
    for name, server in (await api_client.read_health(client)).get("servers", {}).items():
        if server["state"] == "disabled":
            continue
        lines.append(f"  {name}: {server['state']}")
        details: Any = await client.http.get(f"/servers/{name}") if server["tools"] else {"offers": []}
        for tool in details["offers"]:
            about = shorten(tool["description"] or "", MAX_TEXT_CHARS)
            lines.append(f"    {tool['name']}  {about}".rstrip())
    return "\n".join(lines) or f"  {UNKNOWN}"


async def threads_text(client: LangGraphClient) -> str:
    """Return one line per thread, the last one first: its id, its time and its first message."""
    threads = await client.threads.search(limit=MAX_THREADS, sort_by="updated_at", sort_order="desc")
    return "\n".join(f"  {_thread_text(thread)}" for thread in threads) or "  There are no threads."


def _thread_text(thread: Any) -> str:
    values = thread.get("values")
    messages = values.get("messages") if isinstance(values, dict) else None
    first = messages[0] if isinstance(messages, list) and messages else {}
    text = message_text(first.get("content")) if isinstance(first, dict) else ""
    return f"{thread['thread_id']}  {thread['updated_at'][:16]}  {shorten(text, MAX_TEXT_CHARS)}".rstrip()


@contextmanager
def line_history(data_dir: Path) -> Iterator[None]:
    """Enable line editing while the block runs; if the data folder exists, the lines are stored there."""
    if sys.platform == "win32":
        yield
        return
    file = data_dir / HISTORY_FILE
    if data_dir.is_dir():
        make_file(file)
        with suppress(OSError):
            readline.read_history_file(file)
    readline.set_history_length(MAX_HISTORY_LINES)
    try:
        yield
    finally:
        if data_dir.is_dir():
            readline.write_history_file(file)


def read_line(question: str) -> str:
    """Read a line from stdin. Raises EOFError at its end.

    Without a terminal the question goes to stderr, and the prompt for a message is not printed.
    """
    if sys.stdin.isatty():
        return input(question)
    if question != PROMPT:
        sys.stderr.write(question + "\n")
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")
