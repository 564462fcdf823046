"""Refuse files over 600 lines, functions over 60, and tests that lean on mocks."""

import ast
import re
import subprocess
import sys
from pathlib import Path

MAX_FILE, MAX_FUNCTION, MAX_MOCKS_PER_100_TESTS = 600, 60, 5
MOCK_WORDS = re.compile(r"\b(?:Mock|MagicMock|AsyncMock|mocker)\b|\bpatch\(")


def python_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return [path for name in listing.stdout.splitlines() if (path := Path(name)).is_file()]


def size_problems(path: Path, text: str) -> list[str]:
    problems = []
    lines = text.count("\n")
    if lines > MAX_FILE:
        problems.append(f"{path}: {lines} lines, at most {MAX_FILE}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION:
                problems.append(f"{path}:{node.lineno}: {node.name} has {length} lines, at most {MAX_FUNCTION}")
    return problems


def main() -> int:
    problems: list[str] = []
    tests = mocks = 0
    for path in python_files():
        text = path.read_text(encoding="utf-8")
        problems += size_problems(path, text)
        if path.parts[0] == "tests":
            tests += len(re.findall(r"^\s*(?:async )?def test_", text, re.MULTILINE))
            mocks += len(MOCK_WORDS.findall(text))
    if tests and mocks * 100 > tests * MAX_MOCKS_PER_100_TESTS:
        problems.append(f"tests: {mocks} mock words in {tests} tests, at most {MAX_MOCKS_PER_100_TESTS} per 100")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
