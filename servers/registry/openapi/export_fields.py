"""Write the input fields of a tool as the parameters and the body of an operation."""

from typing import Any

from toolweave.field_mappings import Steps
from toolweave.servers.registry.openapi.bodies import JSON, json_rank
from toolweave.tool_config import ToolConfig


def parameters_of(config: ToolConfig, fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Give the parameters; `fields` are the schemas of the input's fields."""
    parameters = []
    for name, place in config.places.items():
        if place.part == "body":
            continue
        parameter: dict[str, Any] = {"name": place.name, "in": place.part, "schema": fields[name]}
        if name in config.required_fields or place.part == "path":
            parameter["required"] = True
        parameters.append(parameter)
    return parameters


def request_body_of(config: ToolConfig, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Give the body, None where no field goes there."""
    steps = {name: place.steps for name, place in config.places.items() if place.part == "body"}
    if not steps:
        return None
    whole = next((name for name, inner in steps.items() if not inner), None)
    schema = _object({inner: name for name, inner in steps.items()}, config, fields) if whole is None else fields[whole]
    required = whole is None or whole in config.required_fields
    return {"required": required, "content": {_media_type(config): {"schema": schema}}}


def _media_type(config: ToolConfig) -> str:
    configured = next((text for name, text in config.api.headers.items() if name.lower() == "content-type"), "")
    return configured if json_rank(configured) == 1 else JSON


def _object(names: dict[Steps, str], config: ToolConfig, fields: dict[str, Any]) -> dict[str, Any]:
    """Describe the object that fields make by their places in it; lists made by indexes are free of form."""
    if any(isinstance(steps[0], int) for steps in names):
        return {"type": "array"}
    inner: dict[str, dict[Steps, str]] = {}
    for steps, name in names.items():
        inner.setdefault(str(steps[0]), {})[steps[1:]] = name
    properties = {
        step: fields[within[()]] if () in within else _object(within, config, fields) for step, within in inner.items()
    }
    required = [
        step for step, within in inner.items() if any(name in config.required_fields for name in within.values())
    ]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}
