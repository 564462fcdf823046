"""Keep a server's configured values out of what is logged and shown about it."""

from urllib.parse import urlsplit

from toolweave.config.mcp import McpServerConfig

SHORTEST_SECRET = 6
LONGEST_TEXT = 600


class Redaction:
    """Blank out one server's env values, header values and URL credentials wherever they appear in a text."""

    def __init__(self, config: McpServerConfig) -> None:
        url = urlsplit(config.url or "")
        candidates = [*config.env.values(), *config.headers.values(), url.query, url.password or ""]
        candidates += [header.partition(" ")[2] for header in config.headers.values()]
        self._secrets = sorted({text for text in candidates if len(text) >= SHORTEST_SECRET}, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return `text` on one line, without secrets and control characters, cut to a readable length."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
