"""Move the `$defs` of tools to the schemas that a document's operations share."""

import re
from typing import Any

from toolweave.tool_config import ToolConfig

_DEFINITION = re.compile(r"#/\$defs/([A-Za-z0-9._-]+)")


class Components:
    """The shared schemas of a document: tools whose definitions are the same share them."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._sources: dict[str, Any] = {}

    def of_input(self, config: ToolConfig) -> dict[str, Any]:
        """Give the schemas of the input's fields as they stand in the document."""
        names = self._named(config.input_schema, f"{config.tool_id}_input")
        return {name: _moved(_written(schema), names) for name, schema in config.input_fields.items()}

    def of_output(self, config: ToolConfig) -> Any:
        """Give the schema of the output as it stands in the document."""
        names = self._named(config.output_schema, f"{config.tool_id}_output")
        return _moved({keyword: part for keyword, part in config.output_schema.items() if keyword != "$defs"}, names)

    def _named(self, schema: dict[str, Any], otherwise: str) -> dict[str, str]:
        definitions = schema.get("$defs")
        if not isinstance(definitions, dict):
            return {}
        definitions = {name: part for name, part in definitions.items() if _DEFINITION.fullmatch(f"#/$defs/{name}")}
        shared = all(self._sources.get(name, definitions) == definitions for name in definitions)
        names = {name: name if shared else f"{name}_{otherwise}" for name in definitions}
        for name, part in definitions.items():
            self._sources[names[name]] = definitions
            self.schemas[names[name]] = _moved(part, names)
        return names


def _written(schema: Any) -> Any:
    """Write `true` and `false` as what many readers of OpenAPI know better."""
    return ({} if schema else {"not": {}}) if isinstance(schema, bool) else schema


def _moved(schema: Any, names: dict[str, str]) -> Any:
    """Lead references to where the definitions are now; one that leads elsewhere allows anything."""
    if isinstance(schema, list):
        return [_moved(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(pointer := schema.get("$ref"), str):
        found = _DEFINITION.fullmatch(pointer)
        if found is None or found[1] not in names:
            return {}
        return {**schema, "$ref": f"#/components/schemas/{names[found[1]]}"}
    return {keyword: _moved(part, names) for keyword, part in schema.items()}
