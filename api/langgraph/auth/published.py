"""Publish in openapi.json how callers authenticate (`auth.openapi`)."""

from toolweave.config.langgraph_json import LangGraphJson
from toolweave.runtime.models import JsonObject


def secured(document: JsonObject, config: LangGraphJson) -> JsonObject:
    """Add the security schemes and requirements that langgraph.json gives, and 401 and 403 where they are answered."""
    if config.auth is None:
        return document
    rules = config.auth.openapi
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for status, text in (("401", "Unauthorized"), ("403", "Forbidden")):
                operation.get("responses", {}).setdefault(status, {"description": text})
            if rules and (needed := rules.paths.get(path, {}).get(method.upper())) is not None:
                operation["security"] = needed
    if rules is None:
        return document
    components = {**document["components"], "securitySchemes": rules.securitySchemes}
    return {**document, "components": components, "security": list(rules.security)}
