"""Look at the processes a command has started (Linux /proc)."""

import time
from collections.abc import Callable
from pathlib import Path

BOUND_S = 60.0


def children_of(pid: int) -> list[int]:
    """List the direct children of a process; none if it has ended."""
    try:
        files = [task / "children" for task in Path(f"/proc/{pid}/task").iterdir()]
        return [int(child) for file in files for child in file.read_text(encoding="ascii").split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_running(pid: int) -> bool:
    """Tell whether the process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Poll a condition that has no event."""
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {BOUND_S:g} s: {what}"
        time.sleep(0.02)
