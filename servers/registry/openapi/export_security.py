"""Write how tools show who asks as security schemes, without any credential (W-08)."""

import re
from typing import Any

from toolweave.servers.registry.openapi.parts import VARIABLE
from toolweave.tool_config import ApiAuth, ToolConfig

_REFERENCE = re.compile(r"(?:Bearer )?\{env:([A-Za-z_][A-Za-z0-9_]*)\}")


class Schemes:
    """The security schemes of a document; tools that show the same share one."""

    def __init__(self) -> None:
        self.schemes: dict[str, dict[str, Any]] = {}

    def requirements(self, config: ToolConfig) -> list[dict[str, list[str]]]:
        """Name the schemes that a tool fulfils, its `auth` first, then the headers that are credentials."""
        shown = [] if config.api.auth.type == "none" else [_of_auth(config.api.auth)]
        shown += [_of_header(name, config.api.headers[name]) for name in sorted(config.secret_headers)]
        return [{self._named(scheme): [] for scheme in shown}] if shown else []

    def _named(self, scheme: dict[str, Any]) -> str:
        wanted = str(scheme.get(VARIABLE, "credential")).lower()
        name, number = wanted, 1
        while self.schemes.get(name, scheme) != scheme:
            number += 1
            name = f"{wanted}_{number}"
        self.schemes[name] = scheme
        return name


def _of_auth(auth: ApiAuth) -> dict[str, Any]:
    if auth.type == "api_key":
        return {"type": "apiKey", "in": auth.location, "name": auth.name, **_variable(auth.value)}
    return {"type": "http", "scheme": auth.type, **_variable(auth.value)}


def _of_header(name: str, value: str) -> dict[str, Any]:
    if name.lower() == "authorization" and value.startswith("Bearer "):
        return {"type": "http", "scheme": "bearer", **_variable(value)}
    return {"type": "apiKey", "in": "header", "name": name, **_variable(value)}


def _variable(value: str | None) -> dict[str, str]:
    found = _REFERENCE.fullmatch(value or "")
    return {VARIABLE: found[1]} if found else {}
