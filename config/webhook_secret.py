"""Read TOOLWEAVE_WEBHOOK_SECRET: the keys that sign webhooks, in the form of the Standard Webhooks specification."""

import base64
import binascii
from typing import Any

PREFIX = "whsec_"
LEAST_BYTES, MOST_BYTES = 24, 64


def webhook_keys(text: str) -> tuple[bytes, ...]:
    """Decode the keys, separated by spaces: all of them sign, so that a receiver can change from one to the next.

    Raises:
        ValueError: a key is not of the form; the text is not repeated.
    """
    keys = tuple(_key(word) for word in text.split())
    if not keys:
        raise _wrong()
    return keys


def signing_keys(value: Any) -> Any:
    """Refuse a setting that webhook_keys cannot read."""
    if isinstance(value, str):
        webhook_keys(value)
    return value


def _key(word: str) -> bytes:
    if not word.startswith(PREFIX):
        raise _wrong()
    try:
        key = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise _wrong() from None
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        raise _wrong()
    return key


def _wrong() -> ValueError:
    return ValueError(
        f"must be {PREFIX} and then {LEAST_BYTES} to {MOST_BYTES} random bytes in base64, such as "
        f'"{PREFIX}$(openssl rand -base64 32)" gives'
    )
