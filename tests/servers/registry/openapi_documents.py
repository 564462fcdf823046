"""Small OpenAPI documents, and what becomes of them."""

from typing import Any

from toolweave.nodes.http_tools.requests import HTTPRequestSpec, build_request
from toolweave.servers.registry.openapi.importing import ImportOptions, ImportResult, import_openapi
from toolweave.tool_config import ToolConfig

API = "https://api.example.com/v1"


def ref(name: str, kind: str = "schemas") -> dict[str, str]:
    """Refer to a component."""
    return {"$ref": f"#/components/{kind}/{name}"}


def document(paths: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    info = {"title": "Pet Store", "version": "1"}
    return {"openapi": version, "info": info, "servers": [{"url": API}], "paths": paths, **more}


def operation(operation_id: str = "op", **more: Any) -> dict[str, Any]:
    return {"operationId": operation_id, "responses": {"200": {"description": "OK"}}, **more}


def body(schema: Any, *, required: bool = True, media_type: str = "application/json") -> dict[str, Any]:
    return {"required": required, "content": {media_type: {"schema": schema}}}


def answer(schema: Any) -> dict[str, Any]:
    return {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}}


def parameter(name: str, place: str = "query", schema: Any = None, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": schema or {"type": "string"}, **more}


def imported(document: Any, **options: Any) -> ImportResult:
    return import_openapi(document, ImportOptions(**options))


def the_tool(document: Any, **options: Any) -> ToolConfig:
    found = imported(document, **options)
    assert found.skipped == []
    (tool,) = found.tools
    return tool


def import_of(raw: Any, *, method: str = "get", path: str = "/things", **more: Any) -> ImportResult:
    """Import a document with one operation."""
    return imported(document({path: {method: raw}}, **more))


def tool_of(raw: dict[str, Any], *, method: str = "get", path: str = "/things", **more: Any) -> ToolConfig:
    """Import a document with one operation, which must become a tool."""
    return the_tool(document({path: {method: raw}}, **more))


def reason_of(raw: Any, *, method: str = "get", path: str = "/things", **more: Any) -> str:
    """Import a document with one operation, which must be skipped; give the reason."""
    found = import_of(raw, method=method, path=path, **more)
    assert found.tools == []
    (skipped,) = found.skipped
    assert skipped["operation"] == f"{method.upper()} {path}"
    return skipped["reason"]


def places(tool: ToolConfig) -> dict[str, str]:
    """Give the part of the request to which each field that is mapped leads."""
    return {name: str(place) for name, place in tool.field_mappings.request.items()}


def request(tool: ToolConfig, **arguments: Any) -> HTTPRequestSpec:
    return build_request(tool, arguments)
