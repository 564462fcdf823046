"""Read an OpenAPI document from JSON, YAML or a dict that was parsed already."""

import json
from collections.abc import Mapping
from typing import Any

from toolweave.errors import DocumentRefused
from toolweave.servers.registry.openapi.values import MOST_BYTES, MOST_VALUES, plain
from toolweave.servers.registry.openapi.yaml_documents import load_yaml


def read_document(content: bytes | str | Mapping[str, Any]) -> dict[str, Any]:
    """Read a document of OpenAPI 3.0, 3.1 or 3.2 as plain JSON values.

    A few seconds of computing for the largest: not for an event loop. What it says is not judged here.

    Raises:
        DocumentRefused: it is too large, cannot be parsed, or is no OpenAPI 3 document.
    """
    document = plain(content if isinstance(content, Mapping) else _parsed(_text(content)))
    if not isinstance(document, dict):
        raise DocumentRefused("An OpenAPI document is an object at its top level, and this is none.")
    if "swagger" in document and "openapi" not in document:
        raise DocumentRefused(
            "This is a Swagger 2.0 document; convert it to OpenAPI 3 first, for instance with the swagger2openapi"
            " program or editor.swagger.io (Edit, Convert to OpenAPI 3), and import the result."
        )
    version = str(document.get("openapi", ""))
    if not version.startswith(("3.0", "3.1", "3.2")):
        said = f"its `openapi` is {version[:20]!r}" if version else "it has no `openapi`"
        raise DocumentRefused(f"This is no OpenAPI document of version 3.0 or 3.1: {said}.")
    if not isinstance(document.get("paths", {}), dict):
        raise DocumentRefused("The `paths` of an OpenAPI document must be an object.")
    return document


def _text(content: bytes | str) -> str:
    if len(content) > MOST_BYTES:
        raise DocumentRefused(f"The document is larger than {MOST_BYTES // (1024 * 1024)} MiB.")
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentRefused("The document is not text in UTF-8.") from None


def _parsed(text: str) -> Any:
    begun = text.lstrip()
    if not begun:
        raise DocumentRefused("The document is empty.")
    if not begun.startswith(("{", "[")):
        return load_yaml(text)
    if sum(map(text.count, ",[{")) > MOST_VALUES:  # The parser lets no other thread run before its end.
        raise DocumentRefused(f"The document has more than {MOST_VALUES:,} commas and brackets.")
    try:
        return json.loads(text, object_pairs_hook=_once_each, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise DocumentRefused(f"The document is not valid JSON: {error.msg} (line {error.lineno}).") from None
    except RecursionError:
        raise DocumentRefused("The document is nested too deeply.") from None
    except ValueError:  # a number of thousands of digits
        raise DocumentRefused("The document holds a number that is too long.") from None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise DocumentRefused(f"The key {twice[:60]!r} is there twice in one object.")
    return values


def _no_constant(text: str) -> Any:
    raise DocumentRefused(f"The document holds {text}, which is no JSON.")
