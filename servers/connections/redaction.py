"""Keep a server's configured values out of what is logged and shown about it."""

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from toolweave.config.mcp import McpServerConfig

SHORTEST_SECRET = 6
LONGEST_TEXT = 600


class Redaction:
    """Blank out one server's secrets wherever they appear in a text.

    They are its env values, header values, URL credentials, and the variables filled into its entry (A-06).
    """

    def __init__(self, config: McpServerConfig) -> None:
        url = urlsplit(config.url or "")
        candidates = [*config.env.values(), *config.headers.values(), url.query, url.password or ""]
        candidates += [header.partition(" ")[2] for header in config.headers.values()]
        # A variable that names a folder or an interpreter is no secret, and errors are about it.
        candidates += [value for value in config.filled_in if not Path(value).exists()]
        self._secrets = sorted({text for text in candidates if len(text) >= SHORTEST_SECRET}, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return `text` on one line, without secrets and control characters, cut to a readable length."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def in_brief(error: BaseException) -> str:
    """Name an error; pydantic's own text would quote what a server sent, cut where no redaction finds a secret."""
    if isinstance(error, ValidationError):
        return f"it has not the form of a {error.title}"
    return f"{type(error).__name__}: {error}".rstrip(": ")
