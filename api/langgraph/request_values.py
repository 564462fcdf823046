"""Read ids and query parameters, with the refusals of the reference server."""

from typing import TypeVar
from uuid import UUID

from starlette.requests import Request

from toolweave.api.langgraph.json_schema import MAX_INTEGER
from toolweave.api.langgraph.schemas.fields import MAX_LIMIT
from toolweave.errors import InvalidRequest
from toolweave.runtime.codec import loads

Choice = TypeVar("Choice", bound=str)
_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off", ""})


def is_uuid(text: str) -> bool:
    """Say whether a text is a UUID in the usual form."""
    try:
        return len(text) == 36 and str(UUID(text)) == text.lower()
    except ValueError:
        return False


def uuid_of(text: str, what: str) -> str:
    """Give a UUID in lower case. Raises InvalidRequest naming what it should identify."""
    if not is_uuid(text):
        raise InvalidRequest(f"Invalid {what} ID: must be a UUID")
    return text.lower()


def path_uuid(request: Request, what: str) -> str:
    """Read the id `{what}_id` from the path."""
    return uuid_of(request.path_params[f"{what}_id"], what)


def query_flag(request: Request, name: str) -> bool:
    """Read a boolean query parameter: true/false, 1/0; absent it is false."""
    text = request.query_params.get(name)
    if text is None:
        return False
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise InvalidRequest(f"Invalid {name} value: must be true or false")
    return word in _TRUE


def query_integer(request: Request, name: str, *, default: int, least: int, most: int) -> int:
    """Read a bounded integer query parameter."""
    text = request.query_params.get(name)
    if text is None:
        return default
    digits = text.strip().removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or not least <= int(text) <= most:
        raise InvalidRequest(f"Invalid {name} value: must be an integer from {least} to {most}")
    return int(text)


def query_page(request: Request) -> tuple[int, int]:
    """Read limit and offset."""
    limit = query_integer(request, "limit", default=10, least=1, most=MAX_LIMIT)
    return limit, query_integer(request, "offset", default=0, least=0, most=MAX_INTEGER)


def query_words(request: Request, name: str, *, keep_empty: bool = False) -> tuple[str, ...]:
    """Read a list: repeated parameters, a JSON list (what the JS SDK 2.0 sends) or both."""
    words: list[str] = []
    for text in request.query_params.getlist(name):
        words.extend(_json_words(text) if text.startswith("[") else [text])
    return tuple(word for word in words if word or keep_empty)


def query_choice(request: Request, name: str, choices: tuple[Choice, ...]) -> Choice | None:
    """Read a parameter out of a closed set."""
    text = request.query_params.get(name)
    for choice in choices:
        if choice == text:
            return choice
    if text is not None:
        raise InvalidRequest(f"Invalid {name} value: must be one of {', '.join(choices)}")
    return None


def _json_words(text: str) -> list[str]:
    try:
        words = loads(text)
    except ValueError:
        return [text]
    return [str(word) for word in words] if isinstance(words, list) else [text]
