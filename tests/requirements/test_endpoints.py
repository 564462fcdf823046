"""Each behaviour of an endpoint is carried by a test that is not slow, and no test names one that is not listed."""

import importlib
import pkgutil

from tests.requirements import endpoints
from tests.requirements.marks import mark_arguments
from toolweave.api.langgraph.app import ENDPOINTS

# Served, and no operations of the published document.
BESIDE_THE_TABLE = frozenset({"GET /docs", "GET /openapi.json", "POST /ui/{graph}"})


def listed() -> set[tuple[str, ...]]:
    """Gather (endpoint, behaviour) from all modules of the list."""
    found: set[tuple[str, ...]] = set()
    for module in pkgutil.iter_modules(endpoints.__path__):
        behaviours = importlib.import_module(f"{endpoints.__name__}.{module.name}").BEHAVIOURS
        found |= {(endpoint, behaviour) for endpoint, texts in behaviours.items() for behaviour in texts}
    return found


def test_every_listed_behaviour_is_carried_by_a_test() -> None:
    assert sorted(listed() - mark_arguments("api", with_slow=False)) == []


def test_tests_name_only_behaviours_that_are_listed() -> None:
    assert sorted(mark_arguments("api", with_slow=True) - listed()) == []


def test_every_documented_status_of_every_endpoint_is_listed() -> None:
    stated = {(endpoint, behaviour[:3]) for endpoint, behaviour in listed()}
    documented = {
        (f"{endpoint.method} {endpoint.path}", str(status))
        for endpoint in ENDPOINTS
        for status in (endpoint.status, *endpoint.errors)
    }
    assert sorted(documented - stated) == []


def test_the_list_names_only_endpoints_that_are_served() -> None:
    served = {f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS}
    assert sorted({endpoint for endpoint, _ in listed()} - served - BESIDE_THE_TABLE) == []
