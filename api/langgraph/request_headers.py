"""Choose the request headers that runs may see in `config.configurable` (`http.configurable_headers`)."""

from fnmatch import fnmatchcase

from starlette.types import Scope

from toolweave.config.langgraph_json import HeaderRules
from toolweave.runtime.caller import TRACE
from toolweave.runtime.models import JsonObject

# Credentials are for the server: no pattern lets them through.
CREDENTIALS = frozenset({"authorization", "cookie", "proxy-authorization", "x-api-key", "x-service-key", "x-tenant-id"})


def configurable_headers(scope: Scope, rules: HeaderRules | None) -> JsonObject:
    """Give the headers that are included and not excluded, in lower case.

    Those that say which trace a request belongs to are included anyway, so that a run can go on with it (T-03).
    """
    includes, excludes = (rules.includes or (), rules.excludes or ()) if rules else ((), ())
    chosen: JsonObject = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        wanted = name in TRACE or (name not in CREDENTIALS and _any(name, includes))
        if wanted and not _any(name, excludes):
            chosen[name] = value.decode("latin-1")
    return chosen


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    # Only * is a wildcard: brackets and question marks stand for themselves.
    return any(fnmatchcase(name, pattern.lower().replace("[", "[[]").replace("?", "[?]")) for pattern in patterns)
