"""Tool configurations of a made-up API of orders."""

from typing import Any

from toolweave.nodes.http_tools.requests import HTTPRequestSpec
from toolweave.tool_config import ToolConfig

BASE = "https://api.example.com/v1"


def tool(
    path: str = "/orders",
    method: str = "GET",
    fields: dict[str, Any] | None = None,
    *,
    request: dict[str, str] | None = None,
    response: dict[str, str] | None = None,
    required: tuple[str, ...] = (),
    output_schema: dict[str, Any] | None = None,
    schema: dict[str, Any] | None = None,
    **api: Any,
) -> ToolConfig:
    """Configure one operation; absent parts are empty."""
    return ToolConfig.model_validate(
        {
            "tool_id": "orders",
            "name": "Orders",
            "description": "Orders of a shop.",
            "api": {"base_url": BASE, "path": path, "method": method, **api},
            "input_schema": {
                "type": "object",
                "properties": fields or {},
                "required": list(required),
                **(schema or {}),
            },
            "output_schema": output_schema or {},
            "field_mappings": {"request": request or {}, "response": response or {}},
        }
    )


TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
FLAG = {"type": "boolean"}
NUMBER = {"type": "number"}


def written(method: str = "GET", url: str = f"{BASE}/orders", **parts: Any) -> HTTPRequestSpec:
    """Give a request as a model may write it."""
    return HTTPRequestSpec.model_validate({"method": method, "url": url, **parts})
