"""Hold what a check found."""

from dataclasses import dataclass
from typing import Literal

from toolweave.errors import ConfigError, ToolweaveError

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `toolweave doctor`: `text` says how it is, `fix` what to do. Neither ever holds a secret."""

    level: Level
    subject: str
    text: str
    fix: str | None = None


def failure(subject: str, error: ToolweaveError) -> Finding:
    """Turn an error of ours into a finding."""
    if isinstance(error, ConfigError):
        text = f"{error.source}: {error.message}" if error.source else error.message
        return Finding("fail", subject, text, error.fix)
    return Finding("fail", subject, str(error))
