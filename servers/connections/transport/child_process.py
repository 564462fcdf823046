"""Run a server's process as long as a block lasts, and end it with all that it started (T-09, mcp.md 3.3)."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import IO

GRACE_S = 2.0
LEFT_BEHIND_S = 0.5
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Program:
    """What to start: the words of the command line, its whole environment, its working directory."""

    line: list[str] = field(repr=False)
    env: dict[str, str] = field(repr=False)
    cwd: str | None = None


@asynccontextmanager
async def running(
    program: Program,
    *,
    stdin: IO[bytes] | int,
    stdout: IO[bytes],
    stderr: IO[bytes],
    dismiss: Callable[[Process], object],
) -> AsyncIterator[Process]:
    """Start a program in a process group of its own and end the group with the block.

    At the end `dismiss` is called to ask it to go. If it has not gone after two seconds it gets SIGTERM, after two
    more SIGKILL; a cancellation meanwhile makes it SIGKILL at once.

    Raises:
        OSError: the program cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *program.line,
        env=program.env,
        cwd=program.cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        try:
            dismiss(process)
            # A process that was stopped would not notice.
            send_to_group(process, signal.SIGCONT)
            if not await has_ended(process, GRACE_S):
                send_to_group(process, signal.SIGTERM)
            if await has_ended(process, GRACE_S):
                await _end_what_it_left(process)
        finally:
            send_to_group(process, signal.SIGKILL)
            await process.wait()


async def has_ended(process: Process, limit_s: float) -> bool:
    """Wait for a process, at most `limit_s`; say whether it has ended."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await process.wait()
    return process.returncode is not None


async def _end_what_it_left(process: Process) -> None:
    if not send_to_group(process, signal.SIGTERM):
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEFT_BEHIND_S):
            # They are not our children: nobody tells of their end.
            while send_to_group(process, 0):  # noqa: ASYNC110
                await asyncio.sleep(LOOK_EVERY_S)


def send_to_group(process: Process, number: int) -> bool:
    """Signal a process and what it started; say whether any of them is left."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def how_it_ended(code: int) -> str:
    """Say in words what a return code tells; negative ones are signals."""
    if code >= 0:
        return f"its process ended with exit code {code}"
    try:
        return f"its process was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its process was ended by signal {-code}"
