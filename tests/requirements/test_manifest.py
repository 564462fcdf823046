"""Each requirement is planned or carried by a test that is not slow, and no test names one that does not exist."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from tests.requirements.manifest import ALL_IDS, PLANNED
from tests.requirements.slow_tests import sets_marks, walk_without_slow

TESTS = Path(__file__).parent.parent


@cache
def carried(walk: Callable[[ast.AST], Iterable[ast.AST]] = ast.walk) -> dict[str, list[str]]:
    """Map requirement ids to the tests that carry them."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for requirement, name in marks(walk(ast.parse(text))) if "mark.requirement(" in text else ():
            found.setdefault(requirement, []).append(f"{path.relative_to(TESTS)}::{name}")
    return found


def marks(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from ((requirement, node.name) for requirement in ids_of(decorator))
        elif isinstance(node, ast.Assign) and sets_marks(node):
            calls = (each for each in ast.walk(node.value) if isinstance(each, ast.Call))
            yield from ((requirement, "(module)") for call in calls for requirement in ids_of(call))


def ids_of(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "requirement":
        return [
            argument.value
            for argument in node.args
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
    return []


def test_every_requirement_is_carried_by_a_test_or_planned() -> None:
    missing = sorted(ALL_IDS - carried(walk_without_slow).keys() - PLANNED.keys())
    assert missing == []


def test_tests_name_only_requirements_that_exist() -> None:
    assert sorted(carried().keys() - ALL_IDS) == []


def test_a_planned_requirement_is_not_claimed_yet() -> None:
    claimed = {requirement: tests for requirement, tests in carried().items() if requirement in PLANNED}
    assert claimed == {}


def test_the_plan_names_only_requirements_that_exist() -> None:
    assert sorted(PLANNED.keys() - ALL_IDS) == []
