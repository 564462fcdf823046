"""Change the product in many small ways, one at a time, and count the changes that the tests catch.

`python scripts/mutants.py WORKSPACE` prints each mutant that no test catches. The mutants are those with the smallest
hashes of a seed, the changed statement and its function's name: code that only moves to another file brings its
mutants with it, so the figures of two versions compare. WORKSPACE gets clones of the commit and two files: the lines
that each test file executes (`reach.json`) and the verdicts (`verdicts.jsonl`). A second call continues.
"""

import argparse
import ast
import copy
import json
import os
import re
import shutil
import signal
import subprocess
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

from coverage import CoverageData, CoveragePlugin
from house import ROOMS

SEED = "16"
COUNT = 200
MOST_TEST_FILES = 25
LIMIT_S = 300
"""A mutant for which the tests take longer makes something wait for ever: it is caught."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
LOGGING = ("logger", "log", "warnings")
Reach = dict[str, dict[str, list[int]]]
"""The lines of each product file that each test file executes."""


@dataclass(frozen=True)
class Mutant:
    """One change: the text of a file from `start` to `end` (line, column in bytes) becomes `after`."""

    key: str
    path: str
    function: str
    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    before: str
    after: str

    def apply_to(self, text: str) -> str:
        lines = text.encode().splitlines(keepends=True)
        (first, from_column), (last, to_column) = self.start, self.end
        head = b"".join(lines[: first - 1]) + lines[first - 1][:from_column]
        tail = lines[last - 1][to_column:] + b"".join(lines[last:])
        return (head + self.after.encode() + tail).decode()


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Give the ways in which one node can be changed."""
    changed = copy.deepcopy(node)
    match changed:
        case ast.Compare(ops=[operation]) if type(operation) in COMPARISONS:
            changed.ops = [COMPARISONS[type(operation)]()]
            yield "comparison", changed
        case ast.BoolOp():
            changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
            yield "and/or", changed
        case ast.UnaryOp(op=ast.Not()):
            yield "not", changed.operand
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            changed.op = ast.Sub() if isinstance(changed.op, ast.Add) else ast.Add()
            yield "plus/minus", changed
        case ast.Constant(value=bool(value)):
            yield "constant", ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield "constant", ast.Constant(value + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return", ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()):
            yield "statement", ast.Pass()
        case ast.IfExp() | ast.If() | ast.While():
            yield "condition", ast.UnaryOp(ast.Not(), changed.test)


def is_left_out(node: ast.AST) -> bool:
    """Say whether a mutant inside would be invisible by design: types, log lines, texts of f-strings."""
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call():
            return ast.unparse(node.func).split(".")[0] in LOGGING
        case ast.Expr(value=ast.Call() as call):
            return is_left_out(call)
        case _:
            return False


def visited(node: ast.AST, function: str, statement: ast.stmt | None) -> Iterator[tuple[ast.AST, str, ast.stmt]]:
    """Walk over what may be changed, with the function and the statement that it stands in."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or is_left_out(child):
                continue
            inside = f"{function}.{child.name}" if hasattr(child, "name") and isinstance(child, ast.stmt) else function
            around = child if isinstance(child, ast.stmt) else statement
            if around is not None:
                yield child, inside, around
            yield from visited(child, inside, around)


def mutants_of(name: str, text: str) -> Iterator[Mutant]:
    """Give every mutant of a file; its key names what is changed, not in which file and line."""
    seen: Counter[str] = Counter()
    for node, function, statement in visited(ast.parse(text), "", None):
        for kind, changed in changes(node):
            target = node.test if kind == "condition" else node  # type: ignore[attr-defined]
            after = ast.unparse(changed)
            after = f"({after})" if isinstance(target, ast.expr) else after
            header = ast.unparse(statement).split(":\n")[0]
            identity = "\n".join((SEED, kind, function, header, ast.unparse(target), after))
            seen[identity] += 1
            key = sha256(f"{identity}\n{seen[identity]}".encode()).hexdigest()[:16]
            start, end = (target.lineno, target.col_offset), (target.end_lineno, target.end_col_offset)
            before = ast.get_source_segment(text, target) or ""
            yield Mutant(key, name, function.strip("."), kind, start, end, before, after)


def files_of(root: Path, *patterns: str) -> list[str]:
    command = ["git", "ls-files", "--", *patterns]
    listing = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, encoding="utf-8")
    return listing.stdout.splitlines()


def chosen(root: Path, count: int) -> list[Mutant]:
    """Choose the mutants of the product with the smallest keys."""
    names = files_of(root, *(f"{room}/*.py" for room in ROOMS))
    texts = {name: (root / name).read_text(encoding="utf-8") for name in names}
    mutants = {mutant.key: mutant for name, text in texts.items() for mutant in mutants_of(name, text)}
    return [mutants[key] for key in sorted(mutants)[:count]]


class Clone:
    """A clone of the project in which tests run."""

    def __init__(self, root: Path, origin: Path, commit: str) -> None:
        self.root = root
        if not (root / ".venv" / ".synced").exists():
            shutil.rmtree(root, ignore_errors=True)
            subprocess.run(["git", "clone", "--quiet", str(origin), str(root)], check=True)
            subprocess.run(["git", "checkout", "--quiet", commit], cwd=root, check=True)
            subprocess.run(["make", "setup"], cwd=root, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["git", "checkout", "--quiet", "."], cwd=root, check=True)

    def run(
        self, *arguments: str, output: Path = Path(os.devnull), limit_s: float | None = LIMIT_S, **variables: str
    ) -> bool:
        """Run the clone's Python; return whether it succeeds in time."""
        settings = [f"{name}={value}" for name, value in variables.items()]
        command = ["env", *settings, str(self.root / ".venv/bin/python"), *arguments]
        with output.open("w") as file:
            process = subprocess.Popen(
                command, cwd=self.root, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class TestFileContext(CoveragePlugin):
    """Record which test file each line is executed for, also in the processes that a test starts."""

    def dynamic_context(self, frame: FrameType) -> str | None:  # noqa: ARG002
        return os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0] or None  # noqa: TID251  pytest sets it


def coverage_init(registry: Any, _options: Mapping[str, Any]) -> None:
    """Let coverage load this file as its plugin."""
    registry.add_dynamic_context(TestFileContext())


def reach_of(clone: Clone, workspace: Path) -> Reach:
    """Run all tests once with coverage; a test file that fails without a mutant reaches nothing."""
    settings = tomllib.loads((clone.root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
    settings["run"] |= {"plugins": [Path(__file__).stem], "data_file": str(workspace / "coverage")}
    options = workspace / "coverage.toml"
    options.write_text(
        "".join(
            f"[tool.coverage.{part}]\n" + "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
            for part, values in settings.items()
        )
    )
    scripts = str(Path(__file__).parent)
    command = ("-m", "coverage", "run", "--rcfile", str(options), "-m", "pytest", "-q", "--workers", "auto")
    log = workspace / "tests.log"
    clone.run(*command, output=log, limit_s=None, PYTHONPATH=scripts)
    clone.run("-m", "coverage", "combine", "--rcfile", str(options), PYTHONPATH=scripts)
    reach: Reach = defaultdict(lambda: defaultdict(list))
    data = CoverageData(str(workspace / "coverage"))
    data.read()
    for measured in data.measured_files():
        name = Path(measured).resolve().relative_to(clone.root.resolve()).as_posix()
        for line, tests in data.contexts_by_lineno(measured).items():
            for test in filter(None, tests):
                reach[test][name].append(line)
    for failed in sorted(set(re.findall(r"^(?:FAILED|ERROR) ([^: ]+)", log.read_text(encoding="utf-8"), re.MULTILINE))):
        if not clone.run("-m", "pytest", "-q", failed):
            print(f"left out, as it fails without a mutant: {failed}")
            reach.pop(failed, None)
    if not reach:
        raise SystemExit(f"The tests did not run: {log} says why.")
    return reach


def verdict_on(clones: "SimpleQueue[Clone]", mutant: Mutant, reach: Reach) -> dict[str, object]:
    """Run the tests that execute a mutant, those that are about its file first, until one fails."""
    touched = range(mutant.start[0], mutant.end[0] + 1)
    tests = [test for test, lines in reach.items() if not set(touched).isdisjoint(lines.get(mutant.path, ()))]
    # First the tests that are mostly about this file.
    tests.sort(key=lambda test: -len(reach[test][mutant.path]) / sum(map(len, reach[test].values())))
    clone = clones.get()
    path = clone.root / mutant.path
    original = path.read_text(encoding="utf-8")
    began = time.monotonic()
    try:
        path.write_text(mutant.apply_to(original), encoding="utf-8")
        caught = bool(tests) and not clone.run("-m", "pytest", "-q", "-x", *tests[:MOST_TEST_FILES])
    finally:
        path.write_text(original, encoding="utf-8")
        clones.put(clone)
    return {**asdict(mutant), "tests": len(tests), "caught": caught, "seconds": round(time.monotonic() - began, 1)}


def recorded(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def record(file: Path, value: object) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(value) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workspace", type=Path)
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--clones", type=int, default=2, help="how many mutants are tried side by side")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", options.commit], check=True, capture_output=True, text=True).stdout
    workspace: Path = options.workspace.resolve()
    workspace.mkdir(parents=True, exist_ok=True)
    clones: SimpleQueue[Clone] = SimpleQueue()
    made = [Clone(workspace / f"clone{number}", Path.cwd(), commit.strip()) for number in range(options.clones)]
    for clone in made:
        clones.put(clone)
    with ThreadPoolExecutor(options.clones) as pool:
        reached = workspace / "reach.json"
        if not reached.exists():
            reached.write_text(json.dumps(reach_of(made[0], workspace)))
        reach = json.loads(reached.read_text())
        verdicts = workspace / "verdicts.jsonl"
        done = {verdict["key"] for verdict in recorded(verdicts)}
        mutants = [mutant for mutant in chosen(made[0].root, options.count) if mutant.key not in done]
        for verdict in pool.map(lambda mutant: verdict_on(clones, mutant, reach), mutants):
            record(verdicts, verdict)
    results = recorded(verdicts)
    for result in results:
        if not result["caught"]:
            place = f"{result['path']}:{result['start'][0]} in {result['function']}"
            print(f"{place}: {result['before']} -> {result['after']} ({result['tests']} test files)")
    print(f"{sum(result['caught'] for result in results)} of {len(results)} mutants caught")


if __name__ == "__main__":
    main()
