"""Show Toolweave at work: a real server, a real MCP server, the official SDK, every step of the graph.

Exits 0 when all of it went as it should, else 1 with the end of the server's log.
"""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx
from demo_library import KEY, serving_library
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from toolweave.cli.terminal import call_text, script_paragraphs, shorten
from toolweave.nodes.script.script_file import VideoScript

READY = "Toolweave is ready at "
START_S, TURN_S, STOP_S = 60.0, 30.0, 20.0
LOG_LINES = 40
NOT_PASSED_ON = (
    "OPENROUTER_API_KEY",
    "GEMINI_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "CONFIG_PATH",
    "MCP_CONFIG_PATH",
)
REQUESTS = (
    "Add a task to buy milk",
    "Create a high-priority task for the dentist appointment",
    'Add a task "Water the plants" due tomorrow',
    "What are my active tasks?",
    "Mark the milk task as done",
    "Delete the plants task",
    "What are my active tasks?",
)
# With the stage at which the workflow stops, if it does.
INSTRUCTIONS = (
    ("Find books by Jules Verne", None),
    ("Lend book 2 to Ada", None),
    ("Lend book 3 to Ada", "api_execution"),
    ("What is the weather in Paris?", "llm_selection"),
)
# What the database must hold in the end: title, status, priority.
EXPECTED = [("Buy milk", "completed", "medium"), ("Dentist appointment", "active", "high")]

console = Console(soft_wrap=True, highlight=False, markup=False, emoji=False)


class DemoFailed(Exception):
    """Something did not go as it should."""


@dataclass
class Turn:
    """What was seen of one run."""

    tokens: int = 0
    calls: list[str] = field(default_factory=list)
    answer: str = ""
    status: str = ""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="toolweave-demo-") as folder:
        log = Path(folder) / "server.log"
        try:
            asyncio.run(demonstrate(Path(folder) / "data", log))
        except (DemoFailed, httpx.HTTPError, OSError, TimeoutError, sqlite3.Error) as error:
            say(f"\nThe demo failed: {error or type(error).__name__}", "bold red")
            say(f"The end of the server's log:\n{tail(log)}", "dim")
            return 1
    return 0


async def demonstrate(data_dir: Path, log: Path) -> None:
    with serving_library() as library_url:
        await every_step(data_dir, log, library_url)


async def every_step(data_dir: Path, log: Path, library_url: str) -> None:
    started = time.perf_counter()
    heading("1. Start the server; it starts the todo MCP server as a subprocess")
    async with serving(data_dir, log) as (process, url):
        say(f"  ready at {url} after {time.perf_counter() - started:.1f} s, process {process.pid}")
        health = await healthy(url)
        heading("2. Talk to the todo agent through langgraph-sdk, on one thread")
        async with get_client(url=url) as client:
            thread_id = await converse(client)
        heading("3. What the MCP server has stored in its database")
        show_todos(data_dir / "todo.db")
        heading("4. Kill the server (SIGKILL), start it again, and go on where it was")
        process.kill()
        await process.wait()
    async with serving(data_dir, log) as (process, url):
        await healthy(url)
        async with get_client(url=url) as client:
            await go_on(client, thread_id)
        heading("5. Ask the same server as an MCP client would")
        await list_graphs_as_tools(url)
        heading("6. Call an HTTP API that knows no MCP: its OpenAPI document becomes tools")
        await use_library(url, library_url)
        heading("7. Write the script of a narrated video from a web page of the library")
        async with get_client(url=url) as client:
            await asyncio.wait_for(write_script(client, f"{library_url}/news/boat"), TURN_S)
        heading("8. Stop the server with SIGTERM")
        await stop(process)
    say(
        f"\nAll of it worked, in {time.perf_counter() - started:.1f} s, with the model {health['model']!r}.",
        "bold green",
    )


@contextlib.asynccontextmanager
async def serving(data_dir: Path, log: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    own = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}  # noqa: TID251 - for the server
    environment = {name: value for name, value in own.items() if not name.startswith("TOOLWEAVE_")}
    environment["TOOLWEAVE_MODEL"] = "offline"
    # The library is on this machine, where requests of tools do not go unless the operator says so.
    environment |= {"TOOLWEAVE_OUTBOUND_ALLOW": "127.0.0.1", "TOOL_LIBRARY_LIBRARY_KEY": KEY}
    command = ["-m", "toolweave", "serve", "--port", "0", "--data-dir", str(data_dir)]
    say(f"  $ python {' '.join(command)}", "dim")
    with log.open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            env=environment,
            cwd=log.parent,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
        )
    try:
        yield process, await ready_url(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ready_url(process: asyncio.subprocess.Process) -> str:
    if process.stdout is None:
        raise DemoFailed("the server's output is not piped")
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), START_S)).decode()
    except TimeoutError:
        raise DemoFailed(f"the server was not ready after {START_S:.0f} s") from None
    if not line.startswith(READY):
        raise DemoFailed(f"the server ended before it was ready, with exit code {await process.wait()}")
    return line.removeprefix(READY).strip()


async def healthy(url: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        deadline = time.monotonic() + START_S
        while True:
            health: dict[str, Any] = (await client.get("/health")).json()
            if health["status"] == "ok":
                break
            if time.monotonic() > deadline:
                raise DemoFailed(f"/health says {health}")
            await asyncio.sleep(0.05)
    say(f"  GET /health: {health['status']}, model {health['model']}")
    for name, server in health["servers"].items():
        say(f"    MCP server {name}: {server['state']}, {server['tools']} tools")
    return health


async def converse(client: LangGraphClient) -> str:
    thread = await client.threads.create()
    say(f"  thread {thread['thread_id']}", "dim")
    for request in REQUESTS:
        await ask(client, thread["thread_id"], request)
    return thread["thread_id"]


async def ask(client: LangGraphClient, thread_id: str, request: str) -> Turn:
    say(f"\n  you: {request}", "bold")
    started = time.perf_counter()
    turn = await asyncio.wait_for(one_turn(client, thread_id, request), TURN_S)
    say(f"  ({turn.tokens} tokens streamed, {(time.perf_counter() - started) * 1000:.0f} ms)", "dim")
    if turn.status != "done" or not turn.calls:
        raise DemoFailed(f"{request!r} ended as {turn.status!r} after calling {turn.calls or 'no tool'}")
    return turn


async def go_on(client: LangGraphClient, thread_id: str) -> None:
    history = await client.threads.get_history(thread_id, limit=1000)
    values = cast("dict[str, Any]", history[0]["values"])
    say(f"  thread {thread_id}: {len(values['messages'])} messages, {len(history)} checkpoints, all still there")
    turn = await ask(client, thread_id, "What are my active tasks?")
    if "Dentist appointment" not in turn.answer:
        raise DemoFailed(f"after the restart the agent answered {turn.answer!r}")


async def list_graphs_as_tools(url: str) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        answer = await client.post("/mcp", json=request, headers={"accept": "application/json"})
    tools = answer.json()["result"]["tools"]
    for tool in tools:
        step(tool["name"], shorten(tool["description"], 100))
    if not tools:
        raise DemoFailed("/mcp offers no tools")


async def use_library(url: str, library_url: str) -> None:
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=TURN_S) as client:
        imported = await client.post("/tools/import/openapi", json={"url": f"{library_url}/openapi.json"})
        if imported.status_code != 201:
            raise DemoFailed(f"the library's document could not be imported: {imported.text}")
        tools = imported.json()["tools"]
        for tool in tools:
            step("tool", f"{tool['tool_id']}: {tool['api']['method']} {tool['api']['path']}")
        for instructions, stage in INSTRUCTIONS:
            say(f"\n  POST /workflow: {instructions}", "bold")
            wanted = {"user_instructions": instructions, "tool_ids": [tool["tool_id"] for tool in tools]}
            started = time.perf_counter()
            answer = await client.post("/workflow", json=wanted)
            show_workflow(answer.json())
            say(f"  ({(time.perf_counter() - started) * 1000:.0f} ms)", "dim")
            if answer.status_code != 200 or answer.json()["error_stage"] != stage:
                raise DemoFailed(f"{instructions!r} answered {answer.text}")


def show_workflow(answer: dict[str, Any]) -> None:
    """Print which request the instructions became and how it ended."""
    if spec := answer["http_spec"]:
        query = "".join(f" {name}={value}" for name, value in spec["query"].items())
        body = f" {json.dumps(spec['body'])}" if spec["body"] is not None else ""
        step("request", f"{spec['method']} {spec['url']}{query}{body}", "cyan")
    if raw := answer["raw_response"]:
        step("answer", f"{raw['status_code']} {shorten(json.dumps(raw['body']), 160)}", "green")
    if answer["error"]:
        step(answer["error_stage"], shorten(answer["error"], 160), "red")


async def write_script(client: LangGraphClient, page: str) -> None:
    started = time.perf_counter()
    stream = client.runs.stream(None, "script_writer", input={"url": page}, stream_mode=["custom", "values"])
    values: dict[str, Any] = {}
    async with contextlib.aclosing(cast("AsyncGenerator[Any, None]", stream)) as parts:
        async for part in parts:
            if part.event == "custom":
                step(f"{part.data['progress']:.0f} %", part.data["message"], "cyan")
            elif part.event == "values":
                values = part.data
            elif part.event == "error":
                raise DemoFailed(f"the script writer failed: {part.data}")
    say("")
    script = VideoScript.model_validate(values["script"])
    for paragraph in script_paragraphs(script):
        console.print(Padding(paragraph, (0, 0, 0, 6)), soft_wrap=False)
    say(f"  ({(time.perf_counter() - started) * 1000:.0f} ms)", "dim")
    if values["source"]["title"] != script.title or len(script.sections) < 3:
        raise DemoFailed(f"the script should have the page's title and its parts: {values}")


async def one_turn(client: LangGraphClient, thread_id: str, request: str) -> Turn:
    turn = Turn()
    stream = client.runs.stream(
        thread_id,
        "todo_agent",
        input={"messages": [{"role": "user", "content": request}]},
        stream_mode=["updates", "messages-tuple"],
    )
    async with contextlib.aclosing(cast("AsyncGenerator[Any, None]", stream)) as parts:
        async for part in parts:
            if part.event == "messages":
                turn.tokens += part.data[0]["type"] == "AIMessageChunk" and bool(part.data[0]["content"])
            elif part.event == "updates":
                for node, update in part.data.items():
                    show_step(turn, node, update)
            elif part.event == "error":
                raise DemoFailed(f"the run failed: {part.data}")
    return turn


def show_step(turn: Turn, node: str, update: Any) -> None:
    """Print what a node of the graph did: one line for a model turn, a tool call, a result, an answer."""
    for state in update if isinstance(update, list) else [update or {}]:
        turn.status = state.get("status", turn.status)
        messages = state.get("messages") or []
        if not messages:
            step(node, ", ".join(f"{key}: {value}" for key, value in state.items()) or "nothing to change")
        for message in messages if isinstance(messages, list) else [messages]:
            calls = message.get("tool_calls") or []
            for call in calls:
                turn.calls.append(call["name"])
                step(node, f"asks for {call_text(call['name'], call['args'])}", "cyan")
            if message["type"] == "tool":
                failed = message.get("status") == "error"
                step(node, f"{message['name']} → {shorten(message['content'], 160)}", "red" if failed else "green")
            elif message["type"] == "ai" and not calls:
                turn.answer = message["content"]
                step(node, f"answers\n{indented(turn.answer)}")


def show_todos(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT id, title, status, priority, due_date FROM todos ORDER BY id").fetchall()
    table = Table("id", "title", "status", "priority", "due", box=None, pad_edge=True)
    for row in rows:
        table.add_row(*(str(value or "-") for value in row))
    console.print(table)
    if [row[1:4] for row in rows] != EXPECTED:
        raise DemoFailed(f"the database should hold {EXPECTED}")


async def stop(process: asyncio.subprocess.Process) -> None:
    children = children_of(process.pid)
    started = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    try:
        code = await asyncio.wait_for(process.wait(), STOP_S)
    except TimeoutError:
        raise DemoFailed(f"the server did not stop within {STOP_S:.0f} s") from None
    left = [pid for pid in children if is_running(pid)]
    say(
        f"  exit code {code} after {time.perf_counter() - started:.1f} s; "
        f"{len(children)} subprocess(es), {len(left)} left"
    )
    if code != 0 or left:
        raise DemoFailed(f"exit code {code}, processes left: {left}")


def children_of(pid: int) -> list[int]:
    """List the direct children of a process where the system has /proc; elsewhere none are known."""
    tasks = Path(f"/proc/{pid}/task")
    files = [task / "children" for task in tasks.iterdir()] if tasks.is_dir() else []
    return [int(child) for file in files if file.exists() for child in file.read_text(encoding="ascii").split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def heading(text: str) -> None:
    say(f"\n{text}", "bold")


def step(node: str, text: str, style: str = "") -> None:
    console.print(Text(f"    {node:<12} "), Text(text, style), sep="")


def indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines())


def say(text: str, style: str = "") -> None:
    console.print(Text(text, style))


def tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join(lines[-LOG_LINES:]) or "(empty)"


if __name__ == "__main__":
    sys.exit(main())
