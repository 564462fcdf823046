"""Read the marks of tests from their source, with those of `make slow` or without them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent.parent


@cache
def mark_arguments(name: str, *, with_slow: bool) -> frozenset[tuple[str, ...]]:
    """Return the arguments of each `pytest.mark.<name>(…)`: on tests, in `pytestmark` and in `pytest.param`."""
    found: set[tuple[str, ...]] = set()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"mark.{name}(" in text:
            nodes = ast.walk(ast.parse(text)) if with_slow else walk_without_slow(ast.parse(text))
            calls = (node for node in nodes if isinstance(node, ast.Call) and is_mark(node.func, name))
            found |= {tuple(ast.literal_eval(argument) for argument in call.args) for call in calls}
    return frozenset(found)


def is_mark(function: ast.expr, name: str) -> bool:
    """Return whether an expression is `pytest.mark.<name>`."""
    return isinstance(function, ast.Attribute) and ast.unparse(function) == f"pytest.mark.{name}"


def walk_without_slow(module: ast.AST) -> Iterator[ast.AST]:
    """Walk a module, in no particular order, without what is marked slow."""
    left = [module]
    while left:
        node = left.pop()
        if not is_slow(node):
            yield node
            left.extend(ast.iter_child_nodes(node))


def is_slow(node: ast.AST) -> bool:
    """Return whether a module, a test or a `pytest.param` is marked slow itself; parameters of a test are apart."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.Module):
        marks = [each.value for each in node.body if isinstance(each, ast.Assign) and sets_marks(each)]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        marks = [each for each in node.decorator_list if isinstance(each, ast.Attribute)]
    elif isinstance(node, ast.Call):
        marks = [each.value for each in node.keywords if each.arg == "marks"]
    return any(isinstance(part, ast.Attribute) and part.attr == "slow" for mark in marks for part in ast.walk(mark))


def sets_marks(statement: ast.Assign) -> bool:
    """Return whether a statement assigns `pytestmark`."""
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets)
