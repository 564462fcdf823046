"""Show the address of a page in messages, without what could be a secret in it."""

import re

from toolweave.redact import redact_text

MOST_CHARACTERS = 300
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")


def shown_url(url: str) -> str:
    """Give a URL as messages may show it: without credentials, and not too long."""
    shown = redact_text(_CREDENTIALS.sub("", url[:MOST_CHARACTERS]))
    return shown if len(url) <= MOST_CHARACTERS else f"{shown}…"
