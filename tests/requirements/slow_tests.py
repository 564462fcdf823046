"""Leave out what only `make slow` runs: tests, parameters and modules that are marked slow."""

import ast
from collections.abc import Iterator


def walk_without_slow(module: ast.AST) -> Iterator[ast.AST]:
    """Walk a module, in no particular order."""
    left = [module]
    while left:
        node = left.pop()
        if not is_slow(node):
            yield node
            left.extend(ast.iter_child_nodes(node))


def is_slow(node: ast.AST) -> bool:
    """Say whether a module, a test or a `pytest.param` is marked slow itself; parameters of a test are apart."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.Module):
        marks = [each.value for each in node.body if isinstance(each, ast.Assign) and sets_marks(each)]
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        marks = [each for each in node.decorator_list if isinstance(each, ast.Attribute)]
    elif isinstance(node, ast.Call):
        marks = [each.value for each in node.keywords if each.arg == "marks"]
    return any(isinstance(part, ast.Attribute) and part.attr == "slow" for mark in marks for part in ast.walk(mark))


def sets_marks(statement: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets)
