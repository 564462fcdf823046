"""Describe registered tools as an OpenAPI 3.1 document that imports to the same tools again (W-01)."""

from collections.abc import Iterable
from typing import Any

from toolweave.servers.registry.openapi.export_fields import parameters_of, request_body_of
from toolweave.servers.registry.openapi.export_schemas import Components
from toolweave.servers.registry.openapi.export_security import Schemes
from toolweave.servers.registry.openapi.operations import Conversion, Site
from toolweave.servers.registry.openapi.own_words import KEYWORD, own_words
from toolweave.servers.registry.openapi.references import Document, Unusable
from toolweave.tool_config import PLACEHOLDER, ToolConfig


def export_openapi(configs: Iterable[ToolConfig], *, title: str = "Registered tools") -> dict[str, Any]:
    """Return an OpenAPI 3.1 document of tools, each an operation named by its tool_id.

    It holds no credentials: security schemes say where one goes and, in `x-toolweave-variable`, which variable has it.
    A path that two tools share with the same method, or on different servers, is told apart by a fragment, which nobody
    sends. Some milliseconds of computing for each tool: not for an event loop.
    """
    export = _Export(title)
    for config in configs:
        export.add(config)
    return export.document


class _Export:
    def __init__(self, title: str) -> None:
        self._schemas = Components()
        self._schemes = Schemes()
        self._paths: dict[str, dict[str, Any]] = {}
        self._templates: dict[str, str] = {}
        self.document: dict[str, Any] = {
            "openapi": "3.1.0",
            "info": {"title": title, "version": "1"},
            "paths": self._paths,
            "components": {"schemas": self._schemas.schemas, "securitySchemes": self._schemes.schemes},
        }

    def add(self, config: ToolConfig) -> None:
        path = self._path(config)
        path_item = self._paths.setdefault(path, {"servers": [{"url": config.api.base_url}]})
        operation = self._operation(config)
        path_item[config.api.method.lower()] = operation
        if own := own_words(config, self._read_again(config, path, path_item, operation)):
            operation[KEYWORD] = own

    def _path(self, config: ToolConfig) -> str:
        """Find a path that no other server, method or name of placeholders has taken."""
        template = PLACEHOLDER.sub("{}", config.api.path)
        path = self._templates.setdefault(template, config.api.path)
        there = self._paths.get(path, {})
        taken = there.get("servers", [{"url": config.api.base_url}]) != [{"url": config.api.base_url}]
        if path != config.api.path or taken or config.api.method.lower() in there:
            return f"{config.api.path}#{config.tool_id}"
        return path

    def _operation(self, config: ToolConfig) -> dict[str, Any]:
        fields = self._schemas.of_input(config)
        operation: dict[str, Any] = {
            "operationId": config.tool_id,
            "summary": config.name,
            "description": config.description,
            "security": self._schemes.requirements(config),
        }
        if parameters := parameters_of(config, fields):
            operation["parameters"] = parameters
        if body := request_body_of(config, fields):
            operation["requestBody"] = body
        content = {"content": {"application/json": {"schema": self._schemas.of_output(config)}}}
        operation["responses"] = {"200": {"description": "OK", **(content if config.output_schema else {})}}
        return operation

    def _read_again(
        self, config: ToolConfig, path: str, path_item: dict[str, Any], operation: dict[str, Any]
    ) -> ToolConfig | None:
        site = Site(config.api.method, path, path_item, operation)
        try:
            return Conversion(Document(self.document)).tool(config.tool_id, site, lambda _warning: None)
        except Unusable:
            return None
