"""Each behaviour of an endpoint is carried by a test that is not slow, and no test names one that is not listed."""

import ast
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.requirements import endpoints
from tests.requirements.slow_tests import walk_without_slow
from toolweave.api.langgraph.app import ENDPOINTS

TESTS = Path(__file__).parent.parent
# Served, and no operations of the published document.
BESIDE_THE_TABLE = frozenset({"GET /docs", "GET /openapi.json", "POST /ui/{graph}"})


def listed() -> set[tuple[str, str]]:
    """Gather (endpoint, behaviour) from all modules of the list."""
    found: set[tuple[str, str]] = set()
    for module in pkgutil.iter_modules(endpoints.__path__):
        behaviours = importlib.import_module(f"{endpoints.__name__}.{module.name}").BEHAVIOURS
        found |= {(endpoint, behaviour) for endpoint, texts in behaviours.items() for behaviour in texts}
    return found


@cache
def carried(walk: Callable[[ast.AST], Iterable[ast.AST]] = ast.walk) -> set[tuple[str, str]]:
    """Gather the arguments of `@pytest.mark.api(endpoint, behaviour)`, on tests and in `pytest.param(marks=…)`."""
    found: set[tuple[str, str]] = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.api(" in text:
            found.update(marks(walk(ast.parse(text))))
    return found


def marks(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "api":
            endpoint, behaviour = (ast.literal_eval(argument) for argument in node.args)
            yield endpoint, behaviour


def test_every_listed_behaviour_is_carried_by_a_test() -> None:
    assert sorted(listed() - carried(walk_without_slow)) == []


def test_tests_name_only_behaviours_that_are_listed() -> None:
    assert sorted(carried() - listed()) == []


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
