"""Show the address of a page in messages, without what could be a secret in it."""

import re

from toolweave.redact import redact_text

MOST_CHARACTERS = 300
_CREDENTIALS = re.compile(r"(?<=//)[^/?#]*@")


def shown_url(url: str) -> str:
    """Give a URL as messages may show it: without credentials, and not too long."""
    # Cut afterwards: half of a long password would look like a host.
    bare = _CREDENTIALS.sub("", url)
    shown = redact_text(bare[:MOST_CHARACTERS])
    return shown if len(bare) <= MOST_CHARACTERS else f"{shown}…"
