"""Run an assistant once: `toolweave run`."""

import asyncio
import json
import sys
from contextlib import ExitStack
from typing import Annotated, Any
from uuid import UUID

import typer

from toolweave.api.routes.chat import message_text, run_error_details
from toolweave.cli import api_client
from toolweave.cli.configuration import McpOption
from toolweave.cli.http_server import local_server
from toolweave.cli.terminal import compact_json, parse_json, sanitize, stdout_console
from toolweave.config.settings import load_settings
from toolweave.errors import RequestError

MODES = ("values", "updates", "messages-tuple", "messages", "tasks", "checkpoints", "debug", "events", "custom")


def run(
    input_text: Annotated[
        str | None,
        typer.Argument(metavar="[INPUT]", help="A JSON object, or text as the user's message; - reads stdin."),
    ] = None,
    assistant: api_client.AssistantOption = None,
    url: api_client.UrlOption = None,
    thread: Annotated[
        UUID | None, typer.Option("--thread", help="Run on this thread.", show_default="a temporary one")
    ] = None,
    stream: Annotated[
        list[str] | None, typer.Option("--stream", metavar="MODE", help=f"Print events, one of: {', '.join(MODES)}.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole final state as JSON.")] = False,
    local: api_client.LocalOption = False,
    mcp: McpOption = None,
) -> None:
    """Run an assistant once and print its answer, or its final state if it has no messages.

    With --stream every event is printed at once, as a line of JSON. The exit code is 1 if the run failed.
    """
    modes, local = _check_modes(stream or []), api_client.is_local(url, mcp, local=local)
    value = parse_input(sys.stdin.read() if input_text == "-" else input_text)
    with ExitStack() as stack:
        server = stack.enter_context(local_server(mcp)) if local else api_client.server_url(url, load_settings())
        with api_client.translate_request_errors(server):
            values, error = asyncio.run(_stream_run(server, assistant, value, str(thread) if thread else None, modes))
    if error is not None:
        sys.stderr.write(f"The run failed: {sanitize(run_error_details(error))}\n")
        raise typer.Exit(1)
    interrupts = values.get("__interrupt__") if isinstance(values, dict) else None
    if interrupts:
        continuing = f" {api_client.continue_command(str(thread), assistant, url)}" if thread else ""
        sys.stderr.write(f"The run waits for an answer: {sanitize(compact_json(interrupts))}.{continuing}\n")
    if as_json or not (modes or interrupts):
        stdout_console().print(sanitize(result_text(values, as_json=as_json)))


def parse_input(text: str | None) -> Any:
    """Parse the input: None without text, a JSON object as it is, other text as a user's message.

    Raises:
        RequestError: the text begins like a JSON object or array and is not valid JSON.
    """
    if text is None:
        return None
    try:
        value = parse_json(text)
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            raise RequestError(f"the input begins like JSON and is not valid JSON: {error}.") from None
        value = text
    return value if isinstance(value, dict) else {"messages": [{"role": "user", "content": text}]}


def result_text(values: Any, *, as_json: bool) -> str:
    """Format the result: the last message's text if there are messages, else JSON."""
    messages = values.get("messages") if isinstance(values, dict) and not as_json else None
    if messages and isinstance(messages[-1], dict):
        return message_text(messages[-1].get("content"))
    return json.dumps(values, ensure_ascii=False, indent=2)


async def _stream_run(
    url: str, assistant: str | None, value: Any, thread: str | None, modes: list[str]
) -> tuple[Any, Any]:
    """Run the assistant; return the last state that the run reported, and its error."""
    client = await api_client.connect(url)
    async with client:
        stream = client.runs.stream(  # type: ignore[call-overload]
            thread,
            await api_client.choose_assistant(client, assistant),
            input=value,
            stream_mode=list(dict.fromkeys(["values", *modes])),
            on_disconnect="cancel",
            **({"if_not_exists": "create"} if thread else {}),
        )
        values = error = None
        async for part in stream:
            if part.event == "values":
                values, error = part.data, None
            elif part.event == "error":
                error = part.data
            if modes and (part.event != "values" or "values" in modes):
                print(compact_json({"event": part.event, "data": part.data}), flush=True)
        return values, error


def _check_modes(modes: list[str]) -> list[str]:
    for mode in modes:
        if mode not in MODES:
            raise typer.BadParameter(f"{mode!r} is not one of {', '.join(MODES)}", param_hint="--stream")
    return modes
