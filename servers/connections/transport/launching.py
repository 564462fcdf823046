"""Start a stdio server so that it cannot outlive us, and refuse in clear words what cannot be started (T-09)."""

import errno
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

GUARD_TEST_S = 5.0


def launch_line(command: str, args: tuple[str, ...], *, cwd: str | None, search_path: str | None) -> list[str]:
    """Give the words to start: on Linux the kernel then kills the server when the thread that starts it ends.

    The owner task's thread runs the plane's event loop and ends after the plane has closed. A server's own children
    are not covered; they see the end of their input.

    Raises:
        OSError: the working directory or the program is not there, or may not be executed; has the path.
    """
    if cwd is not None and not Path(cwd).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", cwd)
    if os.sep in command:
        program = Path(cwd or "", command)
        if not program.exists():
            raise FileNotFoundError(errno.ENOENT, "not found", command)
        if not program.is_file() or not os.access(program, os.X_OK):
            raise PermissionError(errno.EACCES, "not executable", command)
    elif shutil.which(command, path=search_path) is None:
        raise FileNotFoundError(errno.ENOENT, "not found", command)
    return [*death_guard(), command, *args]


@cache
def death_guard() -> tuple[str, ...]:
    """Give the words that, put before a command, tie its life to ours; none where the system has no such program."""
    program = shutil.which("setpriv") if sys.platform == "linux" else None
    if program is None:
        return ()
    guard = (program, "--pdeathsig", "KILL", "--")
    # BusyBox has a setpriv that does not know the option.
    try:
        tried = subprocess.run([*guard, "true"], capture_output=True, timeout=GUARD_TEST_S, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return guard if tried.returncode == 0 else ()
