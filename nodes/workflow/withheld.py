"""Keep a tool's credentials out of what a model is told of it, wherever its configuration repeats them (W-08)."""

import re
from typing import Any

from toolweave.redact import HIDDEN, Clean
from toolweave.tool_config import ToolConfig

__all__ = ["Clean", "cleaned", "withholding"]

_REFERENCE = re.compile(r"\{env:[^{}\n]{0,200}\}?")
SHORTEST_SECRET = 4
"""What is shorter stands in ordinary words, too, and is no secret worth the name."""


def withholding(tool: ToolConfig) -> Clean:
    """Return what blanks the literal secrets of `tool` and references to variables in a text."""
    secrets = _literal_secrets(tool)

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, HIDDEN)
        return _REFERENCE.sub(HIDDEN, text) if "{env:" in text else text

    return clean


def cleaned(value: Any, clean: Clean) -> Any:
    """Return JSON values with every text and key in them cleaned."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): cleaned(item, clean) for name, item in value.items()}
    return [cleaned(item, clean) for item in value] if isinstance(value, list) else value


def _literal_secrets(tool: ToolConfig) -> list[str]:
    auth = tool.api.auth.value or ""
    texts = [tool.api.headers[name] for name in tool.secret_headers]
    # "Bearer abc" and "name:password" hold more than one text that must not be told.
    parts = [part for text in [auth, *texts] for part in (text, *re.split(r"[\s:]+", text, maxsplit=1))]
    literal = {part.strip() for part in parts if "{env:" not in part}
    return sorted((part for part in literal if len(part) >= SHORTEST_SECRET), key=len, reverse=True)
