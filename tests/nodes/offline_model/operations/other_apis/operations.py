"""Describe small HTTP APIs of quite different domains, for which the model's rules were not written."""

from typing import Any

from toolweave.tool_config import ApiOperation, Method, ToolConfig

Schema = dict[str, Any]

BASE_URL = "http://127.0.0.1:9"
DAY: Schema = {"type": "string", "format": "date"}


def text(description: str = "", **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def whole(description: str = "", **more: Any) -> Schema:
    return {"type": "integer", "description": description, **more}


def number(description: str = "") -> Schema:
    return {"type": "number", "description": description}


def flag(description: str = "") -> Schema:
    return {"type": "boolean", "description": description}


def one_of(*values: str, description: str = "") -> Schema:
    return {"type": "string", "enum": list(values), "description": description}


def operation(
    tool_id: str, call: str, about: str, needed: dict[str, Schema] | None = None, **optional: Schema
) -> ToolConfig:
    """Describe one operation; `call` is its method and its path."""
    method, path = call.split()
    schema = {"type": "object", "properties": {**(needed or {}), **optional}, "required": list(needed or {})}
    return ToolConfig(
        tool_id=tool_id,
        name=tool_id.replace("_", " ").capitalize(),
        description=about,
        api=ApiOperation(base_url=BASE_URL, path=path, method=_method(method)),
        input_schema=schema,
    )


def _method(said: str) -> Method:
    methods: dict[str, Method] = {"GET": "GET", "POST": "POST", "PATCH": "PATCH", "PUT": "PUT", "DELETE": "DELETE"}
    return methods[said]
