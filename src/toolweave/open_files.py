"""Raise the limit of open files, and name it in the errors of those who run into it."""

import errno
import sys
from collections.abc import Iterator
from contextlib import suppress

if sys.platform != "win32":
    import resource

# Enough for thousands of streams. The programs that we start inherit the limit, and some of them close, or reserve
# memory for, every file that they may open: with the 2**30 of some containers they take minutes or gigabytes.
ENOUGH = 65_536
# Where the hard limit is "unlimited", macOS takes this number at most.
OPEN_MAX = 10_240
MOST_CAUSES = 100


def raise_limit() -> None:
    """Raise the soft limit of open files to `ENOUGH`, or to the hard limit; processes that we start inherit it."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH), OPEN_MAX):
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def advice(error: BaseException) -> str | None:
    """Return the limit that an error comes from, and what to do; None for errors of other kinds."""
    numbers = {each.errno for each in _with_causes(error) if isinstance(each, OSError)}
    if errno.EMFILE in numbers:
        return (
            f"This process may have {_limit()} files and connections open at once (RLIMIT_NOFILE). Raise the limit, "
            "for example with `ulimit -n 65536` or LimitNOFILE= of a systemd service, and start the server again."
        )
    if errno.ENFILE in numbers:
        return "This machine has as many files open as it allows (fs.file-max). Raise that limit, or close programs."
    return None


def _limit() -> str:
    if sys.platform == "win32":
        return "no more"
    return str(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    waiting: list[BaseException | None] = [error]
    for _ in range(MOST_CAUSES):
        if not waiting:
            return
        each = waiting.pop()
        if each is None:
            continue
        yield each
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
