"""Turn the text of an environment variable into a setting's value; errors never repeat the text."""

import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def comma_separated(value: Any) -> Any:
    """Split origins at commas; each must be `*` or scheme://host[:port]."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(_origin(part) for part in value) if isinstance(value, list | tuple) else value


def comma_separated_texts(value: Any) -> Any:
    """Split at commas, without the spaces around."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _origin(text: Any) -> str:
    if text == "*":
        return "*"
    origin = str(text).rstrip("/")
    if not is_http_url(origin) or origin.count("/") != 2:
        raise ValueError("each origin must be * or http(s)://host[:port], separated by commas")
    return origin


def json_object_of_strings(value: Any) -> Any:
    """Parse a JSON object whose values are strings, such as `{"NAME": "value"}`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError('must be a JSON object of strings, such as {"NAME": "value"}')
    return value


def http_url(value: Any) -> Any:
    """Accept an http or https URL with a host."""
    if isinstance(value, str) and not is_http_url(value):
        raise ValueError("must be an http:// or https:// URL")
    return value


def is_http_url(text: str) -> bool:
    """Tell whether `text` is an absolute http(s) URL without spaces or control characters."""
    if any(character.isspace() or not character.isprintable() for character in text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def expanded_path(value: Any) -> Any:
    """Expand a leading `~`: no shell has done it for a variable that came from a file. As there, `~nobody` stays."""
    try:
        return Path(value).expanduser() if isinstance(value, str | Path) else value
    except RuntimeError:
        return Path(value)


def data_folder(value: Any) -> Any:
    """Take a path that can be part of a database URL."""
    path = expanded_path(value)
    if isinstance(path, Path) and "?" in str(path.absolute()):
        raise ValueError("must be a folder without '?' in its path, which ends the path in a database URL")
    return path


def command_line(value: Any) -> Any:
    """Accept what a shell would split into a program and its arguments."""
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            words = []
        if not words:
            raise ValueError("must be a program and its arguments, with every quotation closed")
    return value


def upper_case(value: Any) -> Any:
    """Take level names in any case."""
    return value.upper() if isinstance(value, str) else value
