"""Leave out the endpoints that langgraph.json switches off (`http.disable_…`): they are not found."""

from collections.abc import Iterable

from toolweave.api.langgraph.endpoint import Endpoint
from toolweave.config.langgraph_json import HttpEntry

# The newer protocol starts runs and tells what they do.
OF_RUNS = ("/commands", "/stream/events")
META = frozenset({"/info", "/metrics"})


def enabled(endpoints: Iterable[Endpoint], http: HttpEntry) -> tuple[Endpoint, ...]:
    """Keep the endpoints of the parts that are switched on."""
    return tuple(endpoint for endpoint in endpoints if not _is_off(endpoint.path, http))


def _is_off(path: str, http: HttpEntry) -> bool:
    if "/runs" in path or path.endswith(OF_RUNS):
        return http.disable_runs
    if path.startswith("/a2a/") or path.endswith("/agent-card.json"):
        return http.disable_a2a
    switches = {
        "/assistants": http.disable_assistants,
        "/threads": http.disable_threads,
        "/store": http.disable_store,
        "/mcp": http.disable_mcp,
        "/ui": http.disable_ui,
    }
    return (path in META and http.disable_meta) or switches.get("/" + path.split("/")[1], False)
