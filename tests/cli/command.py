"""Run `toolweave` commands in processes of their own: real arguments, streams, signals and exit codes.

`cold_python` starts an interpreter as a shell would; all others are forked (tests/fixtures/forked_python.py).
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.fixtures.forked_python import REAL_PYTHON, pid_behind

BOUND_S = 60.0
READY = "Toolweave is ready at "
SAMPLE_APP = Path(__file__).parent / "sample_app" / "langgraph.json"
MCP_SERVER = Path(__file__).parents[1] / "fixtures" / "misbehaving_server.py"


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote."""

    code: int
    stdout: str
    stderr: str

    @property
    def paragraph(self) -> str:
        """The one paragraph on stderr beside the log and the line about a local server's model."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith(('{"time"', "The model is "))]
        assert len(lines) == 1, self.stderr
        return lines[0]


class Running:
    """A command that goes on; `url` is from the ready line of a server."""

    def __init__(self, process: subprocess.Popen[bytes], stderr: Path) -> None:
        self.process = process
        self.url = ""
        self._read = b""
        self._stderr = stderr

    @property
    def pid(self) -> int:
        return pid_behind(self.process.pid)

    def stderr(self) -> str:
        """Return what was written so far, without the watchdog's lines: on a busy machine anything blocks the loop."""
        lines = self._stderr.read_text(encoding="utf-8").splitlines(keepends=True)
        return "".join(line for line in lines if '"toolweave.runtime.background"' not in line)

    def line(self) -> str:
        """Wait for the first line on stdout; empty when the command ended without one."""
        while b"\n" not in self._read and self._more():
            pass
        return self._read.decode().partition("\n")[0]

    def ended(self) -> Ended:
        """Wait for its end."""
        while self._more():
            pass
        return Ended(self.process.wait(BOUND_S), self._read.decode(), self.stderr())

    def signalled(self, number: signal.Signals) -> Ended:
        """Send a signal and wait for its end."""
        os.kill(self.pid, number)
        return self.ended()

    def _more(self) -> bytes:
        assert self.process.stdout is not None
        output = self.process.stdout.fileno()
        assert select.select([output], [], [], BOUND_S)[0], f"nothing was written:\n{self.stderr()}"
        part = os.read(output, 65536)
        self._read += part
        return part


def clean_environment(**variables: str) -> dict[str, str]:
    """Give the environment of this process without what configures Toolweave, plus `variables`."""
    ours = ("TOOLWEAVE_", "OPENROUTER_", "GEMINI_", "OPENAI_", "CONFIG_PATH", "MCP_CONFIG_PATH")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**inherited, "TOOLWEAVE_MODEL": "offline", **variables}


def write_mcp_file(folder: Path, servers: Mapping[str, object]) -> dict[str, str]:
    """Write mcp.jsonc into a folder; return the variable that names it."""
    path = folder / "mcp.jsonc"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return {"TOOLWEAVE_MCP_CONFIG": str(path)}


def toolweave(*args: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    with started(*args, cwd=cwd, stdin=stdin, env=env) as running:
        return running.ended()


def cold_python(*args: str, cwd: Path, env: Mapping[str, str] | None = None, bound_s: float = BOUND_S) -> Ended:
    """Run an interpreter that has imported nothing, to its end."""
    done = subprocess.run(
        [REAL_PYTHON, *args],
        cwd=cwd,
        env=clean_environment(**(env or {})),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=bound_s,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def serving(
    *args: str, cwd: Path, env: Mapping[str, str] | None = None, command: str = "serve", python: str = sys.executable
) -> Iterator[Running]:
    """Run a server on a free port until the block ends; it is ready when the block begins."""
    with started(command, "--port", "0", *args, cwd=cwd, env=env, python=python) as running:
        line = running.line()
        assert line.startswith(READY), f"{line}\n{running.stderr()}"
        running.url = line.removeprefix(READY)
        yield running


@contextmanager
def started(
    *args: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None, python: str = sys.executable
) -> Iterator[Running]:
    """Run a command; when the block ends and it has not, it is stopped.

    `python` is REAL_PYTHON where a test looks at the process itself.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, stderr = Path(folder, "stdin"), Path(folder, "stderr")
        given.write_text(stdin, encoding="utf-8")
        with given.open("rb") as reading, stderr.open("ab") as complaining:
            process = subprocess.Popen(
                [python, "-m", "toolweave", *args],
                cwd=cwd,
                env=clean_environment(**(env or {})),
                stdin=reading,
                stdout=subprocess.PIPE,
                stderr=complaining,
            )
        with process:
            try:
                yield Running(process, stderr)
            finally:
                _end(process)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read_until(self, text: str) -> str:
        """Wait until the command has written a text; return what it has written since the last call."""
        output = b""
        while text.encode() not in output:
            assert select.select([self._descriptor], [], [], BOUND_S)[0], output.decode()
            output += os.read(self._descriptor, 65536)
        return output.decode()

    def read_to_end(self) -> str:
        """Wait until the command has ended; return what it has written since the last call."""
        output = b""
        while select.select([self._descriptor], [], [], BOUND_S)[0]:
            try:
                output += os.read(self._descriptor, 65536)
            except OSError:  # no process has the terminal any more
                break
        return output.decode()

    def send(self, typed: str, *, until: str = "you> ", end: str = "\n") -> str:
        """Type a line and return what the command writes until it has written a text."""
        os.write(self._descriptor, f"{typed}{end}".encode())
        return self.read_until(until)


@contextmanager
def terminal(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """Run a command on a terminal until the block ends; echo is off, so that only its own output is read."""
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    process = subprocess.Popen(
        [REAL_PYTHON, "-m", "toolweave", *args],
        cwd=cwd,
        env=clean_environment(**{"TERM": "dumb", "COLUMNS": "400", **(env or {})}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        # The terminal sends it SIGINT for Ctrl-C only as its controlling terminal.
        preexec_fn=partial(os.login_tty, theirs),  # noqa: PLW1509
    )
    os.close(theirs)
    with process:
        try:
            yield Terminal(ours)
        finally:
            _end(process)
            os.close(ours)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(BOUND_S)
    except subprocess.TimeoutExpired:
        process.kill()
