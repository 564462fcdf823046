"""Publish what is served as an OpenAPI 3.1 document, made from the table that serves it."""

import re
from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from typing import Any

from toolweave import __version__
from toolweave.api.langgraph.components import COMPONENTS
from toolweave.api.langgraph.endpoint import JSON, Endpoint
from toolweave.api.langgraph.json_schema import ref
from toolweave.runtime.models import JsonObject

UUID_IDS = frozenset({"assistant_id", "thread_id", "run_id", "cron_id"})


def openapi_document(endpoints: Iterable[Endpoint], custom: Mapping[str, Any]) -> JsonObject:
    """Describe the API; the application's own document gives title, version and its paths, which win."""
    paths: dict[str, JsonObject] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    for path, operations in custom.get("paths", {}).items():
        paths[path] = {**paths.get(path, {}), **operations}
    components = dict(custom.get("components", {}))
    components["schemas"] = {**components.get("schemas", {}), **_published(COMPONENTS)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toolweave", "version": __version__, **custom.get("info", {})},
        "paths": paths,
        "components": components,
    }


def docs_page(document: JsonObject) -> str:
    """List a document's operations as an HTML page that needs no network and no script."""
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    rows = "".join(
        f"<li><code>{escape(method.upper())}</code> <code>{escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</li>"
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head><body>'
        f'<h1>{title}</h1><p>Machine-readable: <a href="openapi.json">openapi.json</a></p><ul>{rows}</ul></body></html>'
    )


def _operation(endpoint: Endpoint) -> JsonObject:
    operation: JsonObject = {
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").strip("_"),
        "parameters": [*_path_parameters(endpoint.path), *_query_parameters(endpoint)],
        "responses": _responses(endpoint),
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": ref(endpoint.body)}}}
    return operation


def _path_parameters(path: str) -> list[JsonObject]:
    drawing = path.endswith("/graph")
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "format": "uuid"} if name in UUID_IDS and not drawing else {"type": "string"},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[JsonObject]:
    return [{"name": query.name, "in": query.where, "schema": query.schema} for query in endpoint.query]


def _responses(endpoint: Endpoint) -> JsonObject:
    success: JsonObject = {"description": "Success"}
    content: JsonObject = {}
    if endpoint.media_type != JSON:
        content[endpoint.media_type] = {"schema": {"type": "string"}}
    if endpoint.answer is not None:
        answer = ref(endpoint.answer)
        content[JSON] = {"schema": {"type": "array", "items": answer} if endpoint.answers_list else answer}
    if content:
        success["content"] = content
    responses: JsonObject = {str(endpoint.status): success}
    refused = (413,) if endpoint.body is not None else ()
    for status in (*endpoint.errors, *refused):
        responses[str(status)] = {"description": HTTPStatus(status).phrase}
        if status >= 300:
            responses[str(status)]["content"] = {
                JSON: {"schema": ref(endpoint.error_answers.get(status, "ErrorResponse"))}
            }
    return responses


def _published(components: Mapping[str, Any]) -> JsonObject:
    return {name: {"title": name, **schema} for name, schema in components.items()}
