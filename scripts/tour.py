"""Play the first minutes of four users in real terminals, and write the transcripts to docs/tour/.

Each user has a home folder of their own, and an environment with nothing but the built wheel. The tour fails on a
traceback, a line wider than the terminal, a command that does not show what it should in time, more than 120 s for a
user, and more than 30 log lines a minute of a server with three dead MCP servers. It needs tmux.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fixtures.mcp_server import free_port
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

ROOT = Path(__file__).parent.parent
TRANSCRIPTS = ROOT / "docs" / "tour"
WIDTH, HEIGHT = 100, 40
PROMPT = "$ "
STEP_S, USER_S, INSTALL_S = 60.0, 120.0, 600.0
MAX_LOG_LINES_A_MINUTE = 30
POLL_S = 0.1


class TourFailed(Exception):
    """A user did not see what they should."""


class Terminal:
    """A shell of one user in a tmux session of its own."""

    def __init__(self, home: Path, path: Path, number: int, env: Mapping[str, str]) -> None:
        self._home = home
        self._socket = home / f".tmux-{number}"
        configuration = home / ".tmux.conf"
        configuration.write_text("set -g history-limit 10000\nset -g status off\n", encoding="utf-8")
        environment = {
            "HOME": str(home),
            "PATH": f"{path}:/usr/bin:/bin",
            "PS1": PROMPT,
            "LANG": "C.UTF-8",
            **env,
        }
        shell = [
            "env",
            "-i",
            *(f"{name}={value}" for name, value in environment.items()),
            "bash",
            "--norc",
            "--noprofile",
        ]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self._tmux("-f", str(configuration), "new-session", "-d", "-c", str(home), *size, *shell)
        self.wait_for(PROMPT.strip())

    def _tmux(self, *args: str) -> str:
        command = ["tmux", "-S", self._socket, *args]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout

    def text(self) -> str:
        """Return everything that the terminal has shown; wrapped lines are joined, so that they are too wide."""
        shown = self._tmux("capture-pane", "-p", "-J", "-S", "-").replace(str(self._home), "~")
        return "\n".join(line.rstrip() for line in shown.rstrip().splitlines())

    def run(self, command: str, *expected: str) -> None:
        """Run a command to its end; it must show each expected text."""
        start = self.type(command, PROMPT.strip(), at_end=True)
        shown = self.text()[start:]
        if missing := [each for each in expected if each not in shown]:
            raise TourFailed(f"{missing} did not appear:\n{self.text()}")

    def type(self, line: str, expected: str, *, at_end: bool = False) -> int:
        """Type a line, and wait until the terminal shows a text after it; return where its output begins."""
        start = len(self.text()) + len(line)
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")
        self.wait_for(expected, start, at_end=at_end)
        return start

    def stop(self) -> None:
        """Stop the program with Ctrl-C, and wait for its end."""
        start = len(self.text())
        self._tmux("send-keys", "C-c")
        self.wait_for(f"^C{PROMPT.strip()}", start, at_end=True)

    def wait_for(self, expected: str, start: int = 0, *, at_end: bool = False) -> None:
        """Wait until the terminal shows a text.

        Raises:
            TourFailed: it does not in time.
        """
        end = time.monotonic() + STEP_S
        while time.monotonic() < end:
            shown = self.text()[start:]
            if shown.endswith(expected) if at_end else expected in shown:
                return
            time.sleep(POLL_S)
        raise TourFailed(f"{expected!r} did not appear:\n{self.text()}")

    def close(self) -> None:
        """End the session and its programs."""
        self._tmux("kill-server")


class Stage:
    """The home folder of one user, an environment, and the terminals that the user opens."""

    def __init__(self, home: Path, path: Path) -> None:
        self.home = home
        self.terminals: list[Terminal] = []
        self.port = free_port()
        self._path = path

    def open_terminal(self, **env: str) -> Terminal:
        """Open a terminal; it shows a prompt."""
        env["TOOLWEAVE_PORT"] = str(self.port)
        self.terminals.append(Terminal(self.home, self._path, len(self.terminals), env))
        return self.terminals[-1]


Scene = Callable[[Stage], None]
GRAPH = """\
from typing import TypedDict

from langgraph.graph import START, StateGraph


class State(TypedDict):
    text: str


def shout(state: State) -> State:
    return {"text": state["text"].upper()}


graph = StateGraph(State).add_node(shout).add_edge(START, "shout").compile()
"""
SDK_CALL = """\
from langgraph_sdk import get_sync_client

client = get_sync_client(url="http://127.0.0.1:PORT")
turn = {"messages": [{"role": "user", "content": "What are my active tasks?"}]}
state = client.runs.wait(None, "todo_agent", input=turn)
print(state["messages"][-1]["content"])
"""
EMBEDDING = '''\
from toolweave.graphs import build_agent_loop


def get_time(city: str) -> str:
    """Get the current time in a city."""
    return f"12:00 in {city}"


graph = build_agent_loop(tools=[get_time], model="openai:gpt-4o")
answer = graph.invoke({"messages": [("user", "What time is it in Kyoto?")]})
print(answer["messages"][-1].text)
'''
RUN_BODY = (
    '{"assistant_id": "todo_agent", "input": {"messages": [{"role": "user", "content": "Add a task to buy milk"}]}}'
)
READY = "Toolweave is ready at "


def debug_graphs(stage: Stage) -> None:
    """Serve a graph of one's own, run it, misspell its name, and look at it."""
    (stage.home / "shout.py").write_text(GRAPH, encoding="utf-8")
    (stage.home / "langgraph.json").write_text('{"graphs": {"shout": "./shout.py:graph"}}', encoding="utf-8")
    server, other = stage.open_terminal(), stage.open_terminal()
    server.type("toolweave dev", READY)
    other.run("toolweave graph shout")
    other.run("""toolweave run '{"text": "hello"}'""", "HELLO")
    other.run("toolweave run --assistant shuot hello", "Did you mean")
    other.run("toolweave grpah", "Did you mean")
    server.wait_for("shout")
    server.stop()


def call_graphs(stage: Stage) -> None:
    """Serve Toolweave's own graphs; call them with curl and with the SDK."""
    (stage.home / "body.json").write_text(RUN_BODY, encoding="utf-8")
    (stage.home / "ask.py").write_text(SDK_CALL.replace("PORT", str(stage.port)), encoding="utf-8")
    server, other = stage.open_terminal(), stage.open_terminal()
    server.type("toolweave dev", READY)
    other.run(f"curl -s localhost:{stage.port}/runs/wait --json @body.json | grep -o done", "done")
    other.run("python ask.py", "Buy milk")
    other.run(f"curl -s localhost:{stage.port}/docs | head -c 90", "html")
    server.stop()


def embed_graphs(stage: Stage) -> None:
    """Build an agent from a function and the name of a model, and invoke it."""
    (stage.home / "clock.py").write_text(EMBEDDING, encoding="utf-8")
    turns = [WireTurn(calls=(WireCall("get_time", '{"city": "Kyoto"}'),)), WireTurn(text="It is 12:00 in Kyoto.")]
    with openai_wire(turns) as model:
        shell = stage.open_terminal(OPENAI_BASE_URL=model.base_url, OPENAI_API_KEY="key-of-the-tour")
        shell.run("cat clock.py")
        shell.run("python clock.py", "It is 12:00 in Kyoto.")


def use_mcp_servers(stage: Stage) -> None:
    """Import the servers of a client, call a tool, chat; then serve beside three dead servers for a minute."""
    todo = {"command": "python", "args": ["-m", "toolweave.servers.todo"]}
    pasted = {"mcpServers": {"tasks": todo}}
    (stage.home / "claude.json").write_text(json.dumps(pasted), encoding="utf-8")
    dead = {
        "absent": {"command": "no-such-program"},
        "broken": {"command": "python", "args": ["-c", "raise SystemExit('set BROKEN_KEY')"]},
        "refusing": {"url": "http://127.0.0.1:9/mcp"},
    }
    (stage.home / "dead.json").write_text(json.dumps({"mcpServers": dead}), encoding="utf-8")
    shell, server = stage.open_terminal(), stage.open_terminal()
    server.type("toolweave dev --mcp dead.json", READY)
    started = time.monotonic()
    shell.run("toolweave servers import claude.json --yes")
    shell.run("toolweave servers list")
    shell.run("toolweave call tasks.create_todo title='Buy milk'", "Buy milk")
    shell.run("toolweave call tasks.create_tood title=x", "Did you mean")
    shell.type("toolweave chat --mcp claude.json", "/help")
    shell.type("What are my active tasks?", "offline")
    shell.type("/tools", "create_todo")
    shell.run("/quit")
    time.sleep(max(0.0, 60.0 - (time.monotonic() - started)))
    lines = server.text().partition(READY)[2].splitlines()[1:]
    if len(lines) > MAX_LOG_LINES_A_MINUTE:
        raise TourFailed(f"three dead servers wrote {len(lines)} lines in a minute:\n" + "\n".join(lines))


USERS: dict[str, tuple[str, str, Scene]] = {
    "1-debug-graphs": ("You debug graphs", "server", debug_graphs),
    "2-call-graphs": ("You call graphs over REST or with an SDK", "server", call_graphs),
    "3-embed-graphs": ("You embed graphs", "", embed_graphs),
    "4-use-mcp-servers": ("You have MCP servers", "server", use_mcp_servers),
}


def check_transcript(text: str) -> None:
    """Check what a terminal has shown.

    Raises:
        TourFailed: it has a traceback, or a line wider than the terminal.
    """
    if "Traceback (most recent call last)" in text:
        raise TourFailed(f"a traceback:\n{text}")
    if wide := [line for line in text.splitlines() if len(line) > WIDTH]:
        raise TourFailed("lines wider than the terminal:\n" + "\n".join(wide))


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Make an environment with the wheel; return the folder of its programs."""
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    wanted = f"toolweave[{extra}] @ {wheel.as_uri()}" if extra else f"toolweave @ {wheel.as_uri()}"
    command = [uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", wanted]
    subprocess.run(command, check=True, timeout=INSTALL_S)
    return folder / "bin"


def main() -> int:
    """Play each user, and write the transcripts when all have succeeded."""
    transcripts = {}
    with tempfile.TemporaryDirectory(prefix="toolweave-tour-", ignore_cleanup_errors=True) as folder:
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        paths = {extra: installed(wheel, extra, Path(folder, f"env-{extra or 'base'}")) for extra in ("server", "")}
        for name, (title, extra, play) in USERS.items():
            home = Path(folder, name)
            home.mkdir()
            stage = Stage(home, paths[extra])
            started = time.monotonic()
            try:
                play(stage)
                shown = [terminal.text() for terminal in stage.terminals]
            finally:
                for terminal in stage.terminals:
                    terminal.close()
            seconds = time.monotonic() - started
            print(f"{title}: {seconds:.0f} s")
            for each in shown:
                check_transcript(each)
            if seconds > USER_S:
                raise TourFailed(f"{title}: {seconds:.0f} s, more than {USER_S:.0f} s")
            blocks = "\n".join(f"```text\n{each}\n```\n" for each in shown)
            transcripts[name] = f"# {title}\n\nWritten by `make tour`.\n\n{blocks}"
    TRANSCRIPTS.mkdir(exist_ok=True)
    for name, text in transcripts.items():
        (TRANSCRIPTS / f"{name}.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TourFailed as failed:
        sys.exit(f"The tour failed: {failed}")
