"""Choose the request headers that runs may see in `config.configurable` (`http.configurable_headers`)."""

from fnmatch import fnmatchcase

from starlette.types import Scope

from toolweave.config.http_section import HeaderRules
from toolweave.runtime.models import JsonObject

# Credentials are for the server, and what is configured is stored with the run: no pattern lets them through.
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "x-service-key", "x-tenant-id"})


def configurable_headers(scope: Scope, rules: HeaderRules | None) -> JsonObject:
    """Give the headers that are included and not excluded, in lower case; none when langgraph.json names none."""
    if rules is None or not rules.includes:
        return {}
    excludes = rules.excludes or ()
    chosen: JsonObject = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name not in CREDENTIALS and _any(name, rules.includes) and not _any(name, excludes):
            chosen[name] = value.decode("latin-1")
    return chosen


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    # Only * is a wildcard: brackets and question marks stand for themselves.
    return any(fnmatchcase(name, pattern.lower().replace("[", "[[]").replace("?", "[?]")) for pattern in patterns)
