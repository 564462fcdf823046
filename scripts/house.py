"""Measure the shape of the code base, and refuse a value above its entry in house.toml.

`python scripts/house.py` prints the table, `--check` fails where a value has risen, `--lower` writes the present values
where they have fallen. Code lines are lines without blanks, comments and docstrings. The two trips of house.toml, of a
tool call and of a run, are measured by tests/call_paths.
"""

import ast
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import NamedTuple

ROOMS = ("api", "cli", "config", "graphs", "nodes", "runtime", "servers", "studio", "src/toolweave")
ENTRIES = Path("house.toml")
NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}
MODULE_NAME = re.compile(r"toolweave(?:\.\w+)+")
# Files that are no Python and name modules to load: graphs, applications, programs.
NAMING_MODULES = (Path("langgraph.json"), Path("config/mcp.servers.jsonc"))
PYPROJECT = Path("pyproject.toml")
# Measured by tests/call_paths, which has to run the product: the entry and the goal are shown here.
CALL_PATHS = {"tool_call_path": 7, "run_path": 12}


@dataclass
class Module:
    """A Python file of the product: its name for imports, its size, and what it defines and imports."""

    path: Path
    name: str
    lines: int
    code: int
    longest_function: int
    classes: list[str] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)


class Figure(NamedTuple):
    """One row of the table; `names` are the places to look at."""

    value: float
    goal: float
    names: list[str]


def tracked() -> list[Path]:
    """List the Python files of the project, new ones included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    found = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout.splitlines()
    return [path for name in found if (path := Path(name)).is_file() and not path.is_symlink()]


def docstrings_of(tree: ast.AST) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                yield first.value


def code_lines(text: str) -> int:
    """Count the lines that hold code."""
    docstrings: set[int] = set()
    for text_node in docstrings_of(ast.parse(text)):
        docstrings.update(range(text_node.lineno, (text_node.end_lineno or text_node.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = parts[2:] if parts[0] == "src" else parts
    return ".".join(("toolweave", *(part for part in parts if part != "__init__")))


def read_module(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for node in functions_of(tree)]
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    lines = text.count("\n")
    return Module(path, module_name(path), lines, code_lines(text), max(lengths, default=0), classes)


def resolve_imports(modules: Mapping[str, Module]) -> None:
    """Fill in which modules each one imports, those under TYPE_CHECKING and those that strings name included.

    The root package defines the version and loads public names late: what imports it depends on none of these.
    """
    for module in modules.values():
        tree = ast.parse(module.path.read_text(encoding="utf-8"))
        docstrings = set(docstrings_of(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                module.imports.update(known(modules, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                module.imports.update(known(modules, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
                module.imports.update(name for name in MODULE_NAME.findall(node.value) if name in modules)
        module.imports -= {"", "toolweave", module.name}


def known(modules: Mapping[str, Module], dotted: str) -> str:
    """Name the module that a dotted name lies in; empty when it is not ours."""
    while dotted and dotted not in modules:
        dotted = dotted.rpartition(".")[0]
    return dotted


def components(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Group the nodes of a graph that reach each other (Tarjan), every group after those that it points to."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in graph[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            found.append(group)

    for node in graph:
        if node not in index:
            visit(node)
    return found


def floors(graph: Mapping[str, set[str]]) -> int:
    """Count the nodes of the longest chain of imports; each node of a cycle counts."""
    height: dict[str, int] = {}
    for group in components(graph):
        below = [height[target] for node in group for target in graph[node] if target not in group]
        height.update(dict.fromkeys(group, len(group) + max(below, default=0)))
    return max(height.values(), default=0)


def inside(folder: Path, modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """Draw the imports among the modules and the subfolders of one folder."""
    place = {
        name: module.path.relative_to(folder).parts[0]
        for name, module in modules.items()
        if module.path.is_relative_to(folder) and module.path.name != "__init__.py"
    }
    graph: dict[str, set[str]] = {room: set() for room in place.values()}
    for name, room in place.items():
        graph[room] |= {place[target] for target in modules[name].imports if target in place} - {room}
    return graph


def named_elsewhere(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    """List the modules that are named by files which are no Python, each with the file."""
    texts = {path: path.read_text(encoding="utf-8") for path in NAMING_MODULES}
    texts[PYPROJECT] = str(tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["scripts"])
    for path, text in texts.items():
        yield from ((known(modules, name), str(path)) for name in MODULE_NAME.findall(text))


def with_one_importer(modules: Mapping[str, Module], exempt: list[str]) -> list[str]:
    """List the files that exactly one other file imports or names."""
    importers: dict[str, set[str]] = defaultdict(set)
    for module in modules.values():
        for target in module.imports:
            importers[target].add(module.name)
    for target, path in named_elsewhere(modules):
        importers[target].add(path)
    left_out = {path for pattern in exempt for path in Path().glob(pattern)}
    return [
        str(module.path)
        for name, module in modules.items()
        if len(importers[name]) == 1 and module.path.name != "__init__.py" and module.path not in left_out
    ]


def figures(modules: Mapping[str, Module], tests: int, exempt: list[str]) -> dict[str, Figure]:
    """Compute the table."""
    real = {name: module for name, module in modules.items() if module.path.name != "__init__.py"}
    single = with_one_importer(modules, exempt)
    owners: dict[str, list[str]] = defaultdict(list)
    for module in modules.values():
        for name in module.classes:
            owners[name].append(str(module.path))
    twice = [f"{name}: {', '.join(paths)}" for name, paths in owners.items() if len(paths) > 1]
    folders = {module.path.parent for module in real.values() if "migrations" not in module.path.parts}
    crowd = {folder: sum(m.path.parent == folder for m in real.values()) for folder in folders}
    height = {folder: floors(inside(folder, modules)) for folder in folders}
    graph = {name: module.imports for name, module in modules.items()}
    cycles = [group for group in components(graph) if len(group) > 1]
    every = list(modules.values())
    return {
        "product_code_lines": Figure(sum(module.code for module in every), 33_000, []),
        "product_files": Figure(len(every), 270, []),
        "one_importer_percent": Figure(round(100 * len(single) / len(every), 1), 20, single),
        "class_names_defined_twice": Figure(sum(len(paths) - 1 for paths in owners.values()), 0, twice),
        "modules_in_a_folder": Figure(max(crowd.values()), 16, [f"{n} {f}" for f, n in crowd.items() if n > 16]),
        "floors_of_a_folder": Figure(max(height.values()), 7, [f"{n} {f}" for f, n in height.items() if n > 7]),
        "modules_in_import_cycles": Figure(sum(map(len, cycles)), 0, [" ".join(sorted(group)) for group in cycles]),
        "longest_function": Figure(max(module.longest_function for module in every), 60, []),
        "longest_file": Figure(max(module.lines for module in every), 600, []),
        "test_code_lines": Figure(tests, 34_000, []),
    }


def main(arguments: list[str]) -> int:
    paths = tracked()
    product = [path for path in paths if any(path.is_relative_to(room) for room in ROOMS)]
    modules = {module.name: module for module in map(read_module, product)}
    resolve_imports(modules)
    tests = sum(code_lines(path.read_text(encoding="utf-8")) for path in paths if path.parts[0] == "tests")
    entries = tomllib.loads(ENTRIES.read_text(encoding="utf-8"))
    table = figures(modules, tests, entries["exempt_from_one_importer"])
    limits: dict[str, float] = entries["limits"]
    risen = {name: figure for name, figure in table.items() if figure.value > limits[name]}
    if "--check" not in arguments:
        print_table(modules, table, limits, arguments)
    if "--lower" in arguments:
        lower(table)
    for name, figure in risen.items():
        print(f"{name} is {figure.value:g}, above its entry {limits[name]:g} in {ENTRIES}:", *figure.names, sep="\n  ")
    unmatched = [pattern for pattern in entries["exempt_from_one_importer"] if not any(Path().glob(pattern))]
    if unmatched:
        print(f"exempt_from_one_importer in {ENTRIES} names what is not there:", *unmatched, sep="\n  ")
    return 1 if unmatched or (risen and "--lower" not in arguments) else 0


def print_table(
    modules: Mapping[str, Module], table: Mapping[str, Figure], limits: Mapping[str, float], arguments: list[str]
) -> None:
    print(f"{'room':<28}{'files':>8}{'code lines':>12}")
    for room in ROOMS:
        there = [module for module in modules.values() if module.path.is_relative_to(room)]
        print(f"{room:<28}{len(there):>8}{sum(module.code for module in there):>12}")
    print(f"\n{'':<28}{'now':>8}{'entry':>12}{'goal':>8}")
    for name, figure in table.items():
        print(f"{name:<28}{figure.value:>8g}{limits[name]:>12g}{figure.goal:>8g}")
        if "--names" in arguments:
            print(*(f"    {place}" for place in figure.names), sep="\n")
    for name, goal in CALL_PATHS.items():
        print(f"{name:<28}{'in tests':>8}{limits[name]:>12g}{goal:>8g}")
    files = Counter(module.path.name for module in modules.values())
    shared = [f"{count} {name}" for name, count in files.most_common() if count > 2 and not name.startswith("__")]
    print(f"\nfiles of one name: {', '.join(shared)}")


def lower(table: Mapping[str, Figure]) -> None:
    """Write the values that have fallen into house.toml."""
    text = ENTRIES.read_text(encoding="utf-8")
    limits: dict[str, float] = tomllib.loads(text)["limits"]
    for name, figure in table.items():
        # A function may have 60 lines and a file 600, also when today's longest is shorter.
        if figure.value < limits[name] and not name.startswith("longest_"):
            text = re.sub(rf"(?m)^{name} = .*$", f"{name} = {figure.value:g}", text)
    ENTRIES.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
