"""Make the cursor of a listing: where to go on, tied to the listing it came from."""

import base64
import binascii
import hashlib
import json
from dataclasses import astuple

from toolweave.servers.todo.models import Selection


def encode_cursor(after: int, selection: Selection) -> str:
    """Return an opaque text for "go on after this id in this selection"."""
    return base64.urlsafe_b64encode(json.dumps([after, _fingerprint(selection)]).encode()).decode().rstrip("=")


def decode_cursor(cursor: str, selection: Selection) -> int | None:
    """Return the id to go on after; None when the text is no cursor of ours, or one of another selection."""
    try:
        decoded = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError):
        return None
    match decoded:
        case [int(after), str(fingerprint)] if fingerprint == _fingerprint(selection) and 0 < after < 2**53:
            return after
    return None


def _fingerprint(selection: Selection) -> str:
    return hashlib.sha256(json.dumps(astuple(selection)).encode()).hexdigest()[:8]
