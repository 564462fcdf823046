"""Each requirement is carried by a test or planned, never both, and no test names one that does not exist."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.requirements.manifest import ALL_IDS, PLANNED

TESTS = Path(__file__).parent.parent


@cache
def carried() -> dict[str, list[str]]:
    """Map requirement ids to the tests that carry them."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for requirement, name in marks(ast.parse(text)) if "mark.requirement(" in text else ():
            found.setdefault(requirement, []).append(f"{path.relative_to(TESTS)}::{name}")
    return found


def marks(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from ((requirement, node.name) for requirement in ids_of(decorator))
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets
        ):
            calls = (node for node in ast.walk(statement.value) if isinstance(node, ast.Call))
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
    missing = sorted(ALL_IDS - carried().keys() - PLANNED.keys())
    assert missing == []


def test_tests_name_only_requirements_that_exist() -> None:
    assert sorted(carried().keys() - ALL_IDS) == []


def test_a_planned_requirement_is_not_claimed_yet() -> None:
    claimed = {requirement: tests for requirement, tests in carried().items() if requirement in PLANNED}
    assert claimed == {}


def test_the_plan_names_only_requirements_that_exist() -> None:
    assert sorted(PLANNED.keys() - ALL_IDS) == []
