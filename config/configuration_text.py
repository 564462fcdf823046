"""Read the text of a configuration file."""

import errno
import os
import select
import stat
import time
from pathlib import Path
from typing import IO

from toolweave.errors import ConfigError

MAX_BYTES = 262_144
PATIENCE_S = 10.0
"""How long what writes into a pipe may take; a shell makes one of `<(command)`."""
# Else the opening of a named pipe would wait for ever for somebody who writes into it.
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)


def configuration_text(path: Path) -> str:
    """Read a file of UTF-8.

    Raises:
        ConfigError: the file is absent, unreadable, over 256 KiB or not UTF-8, or a pipe that nobody writes into; names
            file, line and fix.
    """
    source = str(path)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE)) as file:
            regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(MAX_BYTES + 1) if regular else _from_pipe(file)
    except FileNotFoundError:
        raise ConfigError("the file does not exist.", source=source, fix="Create it or correct the path.") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(f"cannot be read ({reason}).", source=source, fix="Make it a readable file.") from None
    if len(data) > MAX_BYTES:
        raise ConfigError("is larger than 256 KiB.", source=source, fix="Point to a configuration file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError("is not UTF-8 text.", source=f"{source}:{line}", fix="Save it as UTF-8.") from None


def _from_pipe(file: IO[bytes]) -> bytes:
    """Read what is written into a pipe until its writers have ended.

    Raises:
        TimeoutError: they have not within PATIENCE_S; an OSError.
    """
    data, patience = b"", time.monotonic() + PATIENCE_S
    while len(data) <= MAX_BYTES:
        ready, _, _ = select.select([file], [], [], max(patience - time.monotonic(), 0.0))
        if not ready:
            raise TimeoutError(errno.ETIMEDOUT, f"a pipe whose end did not come within {PATIENCE_S:g} s")
        part = os.read(file.fileno(), MAX_BYTES)
        if not part:
            break
        data += part
    return data
