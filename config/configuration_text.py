"""Read the text of a configuration file."""

from pathlib import Path

from toolweave.errors import ConfigError

MAX_BYTES = 262_144


def configuration_text(path: Path) -> str:
    """Read a file of UTF-8.

    Raises:
        ConfigError: the file is absent, unreadable, over 256 KiB or not UTF-8; names file, line and fix.
    """
    source = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
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
