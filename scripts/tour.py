"""Play the first minutes of four users in real terminals, and write the transcripts to docs/tour/.

Each user has a home folder of their own, and an environment with nothing but the built wheel. The tour fails on a
traceback, a line wider than the terminal, a command that does not show what it should in time or has the wrong exit
code, a server that ends by itself, more than 120 s for a user, and more than 30 log lines in a minute of a server whose
MCP servers fail. It needs tmux and curl.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.cells import cell_len

from tests.fixtures.doc_pages import code_blocks
from tests.fixtures.forked_python import REAL_PYTHON
from tests.fixtures.mcp_server import free_port
from tests.fixtures.openai_wire import WireCall, WireTurn, openai_wire

ROOT = Path(__file__).parent.parent
TRANSCRIPTS = ROOT / "docs" / "tour"
UV = Path(REAL_PYTHON).parent / "uv"
WIDTH, HEIGHT = 100, 40
PROMPT, CHAT_PROMPT = "$", "you>"
STEP_S, USER_S, INSTALL_S, WATCHED_S = 60.0, 120.0, 600.0, 60.0
MAX_LOG_LINES, MAX_LINES = 30, 2_000
POLL_S = 0.1
README_PORT = 2024
# What differs at each run, and what the transcripts show instead.
UNSTABLE = {
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "01a20ae9-a3bc-7597-95ce-f0174832567e",
    r"\b\d\d:\d\d:\d\d\.\d{3}\b": "12:00:00.000",
    r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ": "2026-01-31T12:00:00Z",
    r"\b\d+(\.\d+)?(?= ms\b)": "5",
    r"\b\d+(\.\d+)?(?= s\b)": "0.1",
    r"(?<=tion_ms\":)( ?)[\d.]+": r"\g<1>5",
}


class TourFailed(Exception):
    """A user did not see what they should."""


class Terminal:
    """A shell of one user in a tmux session of its own."""

    def __init__(self, home: Path, path: Path, number: int, env: Mapping[str, str]) -> None:
        self._socket = home / f".tmux-{number}"
        # Before each prompt the shell adds the exit code of the last command to this file.
        self._exit_codes = home / f".exit-codes-{number}"
        configuration = home / ".tmux.conf"
        configuration.write_text("set -g history-limit 50000\nset -g status off\n", encoding="utf-8")
        environment = {
            "HOME": str(home),
            "PATH": f"{path}:/usr/bin:/bin",
            "PS1": f"{PROMPT} ",
            "PROMPT_COMMAND": f"echo $? >> {shlex.quote(str(self._exit_codes))}",
            "LANG": "C.UTF-8",
            "TERM": "screen",
            **env,
        }
        variables = [f"{name}={value}" for name, value in environment.items()]
        shell = ["env", "-i", *variables, "bash", "--norc", "--noprofile", "-o", "pipefail"]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        self._tmux("-f", str(configuration), "new-session", "-d", "-c", str(home), *size, *shell)

    def _tmux(self, *args: str) -> str:
        command = ["tmux", "-S", str(self._socket), *args]
        return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True).stdout

    def text(self) -> str:
        """Return everything that the terminal has shown; wrapped lines are joined, so that they are too wide."""
        shown = self._tmux("capture-pane", "-p", "-J", "-S", "-")
        return "\n".join(line.rstrip() for line in shown.rstrip().splitlines())

    def exit_codes(self) -> list[str]:
        """Return the exit codes of the commands that have ended; the first one is of the shell's start."""
        return self._exit_codes.read_text(encoding="utf-8").split() if self._exit_codes.exists() else []

    def run(self, command: str, expected: str, *more: str, fails: bool = False) -> None:
        """Run a command to its end; it must show the expected texts, and fail only if it should."""
        before = len(self.exit_codes())
        self.type(command, expected, *more, end=PROMPT, ended=before + 1)
        if (self.exit_codes()[-1] != "0") != fails:
            raise TourFailed(f"`{command}` has exit code {self.exit_codes()[-1]}:\n{self.text()}")

    def type(self, line: str, *expected: str, end: str = "", ended: int = 0) -> None:
        """Type a line, and wait for what the terminal shows after it."""
        start = len(self.text()) + len(line)
        self._tmux("send-keys", "-l", line)
        self._tmux("send-keys", "Enter")
        self.wait_for(*expected, start=start, end=end, ended=ended)

    def stop(self) -> None:
        """Stop the only program with Ctrl-C; it must run until then, and end without an error."""
        if len(self.exit_codes()) != 1:
            raise TourFailed(f"the server ended by itself:\n{self.text()}")
        self._tmux("send-keys", "C-c")
        self.wait_for(end=PROMPT, ended=2)
        if self.exit_codes()[-1] != "0":
            raise TourFailed(f"the server has exit code {self.exit_codes()[-1]}:\n{self.text()}")

    def wait_for(self, *expected: str, start: int = 0, end: str = "", ended: int = 0) -> None:
        """Wait until the terminal shows all texts, and `end` at its end, and as many commands have ended."""
        deadline = time.monotonic() + STEP_S
        while time.monotonic() < deadline:
            done = len(self.exit_codes()) >= ended
            shown = self.text()[start:]
            if done and shown.endswith(end) and all(each in shown for each in expected):
                return
            time.sleep(POLL_S)
        raise TourFailed(f"{[*expected, end]} did not appear:\n{self.text()}")

    def close(self) -> None:
        """End the session and its programs."""
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], capture_output=True, check=False)


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
        terminal = Terminal(self.home, self._path, len(self.terminals), env)
        self.terminals.append(terminal)
        terminal.wait_for(end=PROMPT, ended=1)
        return terminal

    def transcript(self, shown: str) -> str:
        """Return what a terminal has shown without the machine's paths and what differs at each run."""
        text = shown.replace(str(self.home), "~").replace(str(self._path.parent), "~/.venv")
        text = text.replace(f":{self.port}", f":{README_PORT}")
        for pattern, stable in UNSTABLE.items():
            text = re.sub(pattern, stable, text)
        if self.home.parent.name in "".join(text.split()):
            raise TourFailed(f"a path of this machine:\n{text}")
        return text


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
RUN_BODY = (
    '{"assistant_id": "todo_agent", "input": {"messages": [{"role": "user", "content": "Add a task to buy milk"}]}}'
)
READY = "Toolweave is ready at "
SERVE_MCP = "from mcp.server.fastmcp import FastMCP; FastMCP('tour', log_level='ERROR').run()"
FAILING_SERVERS = {
    "absent": {"command": "no-such-program"},
    "broken": "import sys; [print('at frame', n, file=sys.stderr) for n in range(40)]; sys.exit('set BROKEN_KEY')",
    "leaving": f"import os, threading; threading.Timer(2, os._exit, [3]).start(); {SERVE_MCP}",
    "noisy": f"[print('loading', n, flush=True) for n in range(40)]; {SERVE_MCP}",
}
BANNER = re.compile(r"\$|\^C|Toolweave (serves|is ready)| {2}[A-Z]| {10}\S")


def readme_example(name: str) -> str:
    """Return the README's Python example that uses a name."""
    blocks = code_blocks((ROOT / "README.md").read_text(encoding="utf-8"), "python")
    return next(block for block in blocks if name in block)


def debug_graphs(stage: Stage) -> None:
    """Serve a graph of one's own, run it, misspell its name, and look at it."""
    (stage.home / "shout.py").write_text(GRAPH, encoding="utf-8")
    (stage.home / "langgraph.json").write_text('{"graphs": {"shout": "./shout.py:graph"}}', encoding="utf-8")
    server, other = stage.open_terminal(), stage.open_terminal()
    server.type("toolweave dev", READY)
    other.run("toolweave graph shout", "__start__", "→ shout")
    other.run("""toolweave run '{"text": "hello"}'""", "HELLO")
    other.run("toolweave run --assistant shuot hello", "Did you mean", fails=True)
    other.run("toolweave grpah", "Did you mean", fails=True)
    server.wait_for("run of shout")
    server.stop()


def call_graphs(stage: Stage) -> None:
    """Serve Toolweave's own graphs; call them with curl and with the README's example for the SDK."""
    (stage.home / "body.json").write_text(RUN_BODY, encoding="utf-8")
    example = readme_example("get_sync_client").replace(f":{README_PORT}", f":{stage.port}")
    (stage.home / "ask.py").write_text(example, encoding="utf-8")
    server, other = stage.open_terminal(), stage.open_terminal()
    server.type("toolweave dev", READY)
    url = f"localhost:{stage.port}"
    other.run(f"curl -s {url}/runs/wait --json @body.json | grep -o '“Buy milk” (.*)'", "“Buy milk” (id 1)")
    other.run(f"python ask.py | cut -c 1-{WIDTH - 2}", "updates {'call_model'", "updates {'tools'")
    other.run(f"curl -s {url}/docs | grep -o '<title>.*</title>'", "Toolweave</title>\n")
    server.stop()


def embed_graphs(stage: Stage) -> None:
    """Build the README's agent, from a function and the name of a model; invoke it, and again without a key."""
    (stage.home / "clock.py").write_text(readme_example("build_agent_loop"), encoding="utf-8")
    turns = [WireTurn(calls=(WireCall("get_time", '{"city": "Kyoto"}'),)), WireTurn(text="It is 12:00 in Kyoto.")]
    with openai_wire(turns) as model:
        shell = stage.open_terminal(OPENAI_BASE_URL=model.base_url, OPENAI_API_KEY="key-of-the-tour")
        shell.run("cat clock.py", "build_agent_loop(")
        shell.run("python clock.py", "It is 12:00 in Kyoto.")
    shell.run("unset OPENAI_BASE_URL OPENAI_API_KEY; sed s/openai:gpt-4o/offline/ clock.py | python", "(offline model)")


def use_mcp_servers(stage: Stage) -> None:
    """Import the servers of a client, call a tool, chat; beside it, serve with servers that fail for a minute."""
    pasted = {"tasks": {"command": "python", "args": ["-m", "toolweave.servers.todo"]}}
    failing = {
        name: {"command": "python", "args": ["-c", entry]} if isinstance(entry, str) else entry
        for name, entry in FAILING_SERVERS.items()
    }
    for file, servers in (("claude.json", pasted), ("failing.json", failing)):
        (stage.home / file).write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    shell, server = stage.open_terminal(), stage.open_terminal()
    started = time.monotonic()
    server.type("toolweave dev --mcp failing.json", READY)
    shell.run("toolweave servers import claude.json --yes", "tasks ready 5 tools")
    shell.run("toolweave servers list", "tasks       enabled")
    shell.run("toolweave call tasks.create_todo title='Buy milk'", '"title": "Buy milk"')
    shell.run("toolweave call tasks.create_tood title=x", "Did you mean", fails=True)
    to_dead_server = "toolweave call --config failing.json absent.search"
    shell.run(to_dead_server, "no-such-program was not found", fails=True)
    shell.type("toolweave chat --mcp claude.json", "/help", end=CHAT_PROMPT)
    shell.type("What are my active tasks?", "“Buy milk”", "(offline model)", end=CHAT_PROMPT)
    shell.type("/tools", "create_todo", end=CHAT_PROMPT)
    shell.run("/quit", "")
    time.sleep(max(0.0, WATCHED_S - (time.monotonic() - started)))
    lines = [line for line in server.text().splitlines() if line and not BANNER.match(line)]
    if len(lines) > MAX_LOG_LINES:
        raise TourFailed(f"a server wrote {len(lines)} log lines in a minute:\n" + "\n".join(lines))
    server.stop()


USERS: dict[str, tuple[str, str, Scene]] = {
    "1-debug-graphs": ("You debug graphs", "server", debug_graphs),
    "2-call-graphs": ("You call graphs over REST or with an SDK", "server", call_graphs),
    "3-embed-graphs": ("You embed graphs", "", embed_graphs),
    "4-use-mcp-servers": ("You have MCP servers", "server", use_mcp_servers),
}


def check_shown(text: str) -> None:
    """Refuse a traceback, a line wider than the terminal, and more lines than a person reads."""
    if "Traceback (most recent call last)" in text:
        raise TourFailed(f"a traceback:\n{text}")
    if wide := [line for line in text.splitlines() if cell_len(line) > WIDTH]:
        raise TourFailed("lines wider than the terminal:\n" + "\n".join(wide))
    if (count := text.count("\n")) > MAX_LINES:
        raise TourFailed(f"a terminal shows {count} lines")


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Make an environment with the wheel; return the folder of its programs."""
    subprocess.run([UV, "venv", "--quiet", "--python", REAL_PYTHON, folder], check=True)
    wanted = f"toolweave[{extra}] @ {wheel.as_uri()}" if extra else f"toolweave @ {wheel.as_uri()}"
    command = [str(UV), "pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), wanted]
    subprocess.run(command, check=True, timeout=INSTALL_S)
    return folder / "bin"


def play(stage: Stage, title: str, scene: Scene) -> list[str]:
    """Play one user; return the transcripts of the terminals."""
    started = time.monotonic()
    try:
        scene(stage)
        shown = [terminal.text() for terminal in stage.terminals]
    finally:
        for terminal in stage.terminals:
            terminal.close()
    seconds = time.monotonic() - started
    print(f"{title}: {seconds:.0f} s")
    for each in shown:
        check_shown(each)
    if seconds > USER_S:
        raise TourFailed(f"{title}: {seconds:.0f} s, more than {USER_S:.0f} s")
    return [stage.transcript(each) for each in shown]


def main() -> int:
    """Play each user, and write the transcripts when all have succeeded."""
    if missing := [program for program in ("tmux", "curl") if shutil.which(program) is None]:
        raise TourFailed(f"{' and '.join(missing)} must be installed")
    pages = {}
    # A short path, so that a terminal never breaks one in the middle.
    with tempfile.TemporaryDirectory(prefix="tour-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        subprocess.run([UV, "build", "--quiet", "--wheel", "--out-dir", folder, ROOT], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        paths = {extra: installed(wheel, extra, Path(folder, extra or "base")) for extra in ("server", "")}
        for name, (title, extra, scene) in USERS.items():
            home = Path(folder, name)
            home.mkdir()
            blocks = [f"```text\n{each}\n```\n" for each in play(Stage(home, paths[extra]), title, scene)]
            pages[name] = "\n".join([f"# {title}\n\nWritten by `make tour`.\n", *blocks])
    TRANSCRIPTS.mkdir(exist_ok=True)
    for name, text in pages.items():
        (TRANSCRIPTS / f"{name}.md").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TourFailed as failed:
        sys.exit(f"The tour failed: {failed}")
