"""Chat with an assistant in the terminal: `toolweave chat`."""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Annotated, Any, TypeVar
from uuid import UUID, uuid4

import typer

from toolweave.cli.api_client import LocalOption, UrlOption, connect, server_url, talking_to
from toolweave.cli.chat import Conversation, Transcript, TurnEnd, ask_all
from toolweave.cli.serving import local_server
from toolweave.cli.terminal import stdout_console
from toolweave.config.settings import load_settings

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
