"""Run `toolweave` commands in processes of their own: real arguments, streams, signals and exit codes.

Importing what the commands need takes seconds, so the processes are forked from one that has imported it
(`multiprocessing`'s fork server). `cold` starts an interpreter as a shell would.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from toolweave.cli.main import main

BOUND_S = 60.0
READY = "Toolweave is ready at "
SAMPLE_APP = Path(__file__).parent / "sample_app" / "langgraph.json"
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    [
        "tests.cli.command",
        *(
            f"toolweave.cli.{name}"
            for name in ("serve", "chat", "run", "script", "tools", "graph", "doctor", "servers_add")
        ),
        "toolweave.servers.connections.session",
    ]
)


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it wrote."""

    code: int
    stdout: str
    stderr: str

    @property
    def paragraph(self) -> str:
        """The one paragraph on stderr that is no line of the log."""
        lines = [line for line in self.stderr.splitlines() if not line.startswith('{"time"')]
        assert len(lines) == 1, self.stderr
        return lines[0]


class Running:
    """A command that goes on; `url` is where a server said it is ready."""

    def __init__(self, process: BaseProcess, stdout: "Connection[Any, Any]", stderr: Path) -> None:
        self.process = process
        self.url = ""
        self._stdout = stdout
        self._read = b""
        self._stderr = stderr

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def stderr(self) -> str:
        return self._stderr.read_text(encoding="utf-8")

    def line(self) -> str:
        """Wait for the first line on stdout; empty when the command ended without one."""
        while b"\n" not in self._read and self._more():
            pass
        return self._read.decode().partition("\n")[0]

    def ended(self) -> Ended:
        """Wait for its end."""
        while self._more():
            pass
        self.process.join(BOUND_S)
        assert self.process.exitcode is not None, f"it did not end:\n{self.stderr()}"
        return Ended(self.process.exitcode, self._read.decode(), self.stderr())

    def signalled(self, number: signal.Signals) -> Ended:
        """Send a signal and wait for its end."""
        os.kill(self.pid, number)
        return self.ended()

    def _more(self) -> bytes:
        assert self._stdout.poll(BOUND_S), f"nothing was written:\n{self.stderr()}"
        part = os.read(self._stdout.fileno(), 65536)
        self._read += part
        return part


def clean_environment(**variables: str) -> dict[str, str]:
    """Give the environment of this process without what configures Toolweave, plus `variables`."""
    ours = ("TOOLWEAVE_", "OPENROUTER_", "GEMINI_", "OPENAI_", "CONFIG_PATH", "MCP_CONFIG_PATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "TOOLWEAVE_MODEL": "offline", **variables}


def toolweave(*args: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Ended:
    """Run a command to its end."""
    with started(*args, cwd=cwd, stdin=stdin, env=env) as running:
        return running.ended()


def cold(*args: str, cwd: Path, env: Mapping[str, str] | None = None) -> Ended:
    """Run `python -m toolweave` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "toolweave", *args],
        cwd=cwd,
        env=clean_environment(**(env or {})),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=BOUND_S,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


@contextmanager
def serving(*args: str, cwd: Path, env: Mapping[str, str] | None = None, command: str = "serve") -> Iterator[Running]:
    """Run a server on a free port until the block ends; it is ready when the block begins."""
    with started(command, "--port", "0", *args, cwd=cwd, env=env) as running:
        line = running.line()
        assert line.startswith(READY), f"{line}\n{running.stderr()}"
        running.url = line.removeprefix(READY)
        yield running


@contextmanager
def started(*args: str, cwd: Path, stdin: str = "", env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Run a command; when the block ends and it has not, it is stopped."""
    with tempfile.TemporaryDirectory() as folder:
        given, stderr = Path(folder, "stdin"), Path(folder, "stderr")
        given.write_text(stdin, encoding="utf-8")
        stderr.touch()
        reading, writing = _FORKS.Pipe(duplex=False)
        streams = (given, writing, stderr)
        process = _FORKS.Process(target=_run, args=(args, cwd, clean_environment(**(env or {})), streams))
        process.start()
        writing.close()
        try:
            yield Running(process, reading, stderr)
        finally:
            _end(process)
            reading.close()


def _end(process: BaseProcess) -> None:
    for stop in (process.terminate, process.kill):
        if process.exitcode is None:
            stop()
            process.join(BOUND_S)
    process.close()


def _run(
    args: tuple[str, ...], cwd: Path, env: dict[str, str], streams: tuple[Path, "Connection[Any, Any]", Path]
) -> None:
    """Become the command, in the forked process."""
    given, stdout, stderr = streams
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    os.dup2(os.open(given, os.O_RDONLY), 0)
    os.dup2(stdout.fileno(), 1)
    os.dup2(os.open(stderr, os.O_WRONLY | os.O_APPEND), 2)
    stdout.close()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    sys.argv = ["toolweave", *args]
    main()
