"""Write docs/reference and the list of decisions from the code: `make reference`.

The test tests/test_reference_pages.py does it again and compares.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from toolweave.api.app import create_app
from toolweave.api.langgraph.app import ENDPOINTS
from toolweave.api.langgraph.custom_app import custom_openapi
from toolweave.api.langgraph.endpoints import openapi_document
from toolweave.cli.commands import app as command_line
from toolweave.config.settings import Settings, variable_name

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WRITTEN = "<!-- Written by scripts/reference_pages.py. -->"
METHODS = ("get", "post", "put", "patch", "delete")


def pages() -> dict[str, str]:
    """Return every page by its path in docs/."""
    return {
        "reference/api.md": api_page(openapi_document(ENDPOINTS, custom_openapi(create_app()))),
        "reference/cli.md": cli_page(),
        "reference/settings.md": settings_page((ROOT / ".env.example").read_text(encoding="utf-8")),
        "decisions/README.md": decisions_page(),
    }


def api_page(document: Mapping[str, Any]) -> str:
    """List the operations of an OpenAPI document by their tag."""
    rows: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in (each for each in METHODS if each in operations):
            operation = operations[method]
            inputs = [f"`{_resolved(document, each)['name']}`" for each in operation.get("parameters", ())]
            statuses = ", ".join(sorted(operation["responses"]))
            given = ", ".join([*inputs, *_body_names(operation)])
            cells = (f"`{method.upper()} {path}`", operation.get("summary", ""), given, statuses)
            rows.setdefault((operation.get("tags") or ["other"])[0], []).append(_row(cells))
    sections = [
        f"## {tag[0].upper()}{tag[1:]}\n\n" + _table(("operation", "", "parameters, body", "statuses"), listed)
        for tag, listed in rows.items()
    ]
    about = (
        "A running server shows these operations with all schemas at `/docs`, and as a document at `/openapi.json`. "
        "[Compatibility](../compatibility.md) lists the differences from the official server."
    )
    return _page("The API", about, sections)


def _resolved(document: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in value["$ref"].removeprefix("#/").split("/") if "$ref" in value else ():
        document = document[name]
    return document if "$ref" in value else value


def _body_names(operation: Mapping[str, Any]) -> Iterator[str]:
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        reference = content.get("schema", {}).get("$ref", "")
        yield f"body `{reference.rpartition('/')[2] or kind}`"


def cli_page() -> str:
    """List the commands with their arguments and options."""
    root: Any = typer.main.get_command(command_line)
    context = root.make_context("toolweave", ["--help"], resilient_parsing=True)
    sections = [section for name, command in _commands(root, context) for section in _command_section(name, command)]
    return _page("The command line", "`toolweave COMMAND --help` prints the same.", sections)


def _commands(group: Any, context: Any, names: str = "toolweave") -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(context):
        command = group.resolve_command(context, [name])[1]
        below = type(context)(command, parent=context, info_name=name)
        if hasattr(command, "commands"):
            yield from _commands(command, below, f"{names} {name}")
        else:
            yield f"{names} {name}", (command, below)


def _command_section(name: str, opened: tuple[Any, Any]) -> Iterator[str]:
    command, context = opened
    records = (each.get_help_record(context) for each in command.params)
    rows = [_row((f"`{shown}`", " ".join(text.split()))) for shown, text in filter(None, records)]
    yield f"## {name}\n\n{command.help}"
    if rows:
        yield _table(("argument or option", ""), rows)


def settings_page(example: str) -> str:
    """List the settings in the order, and with the comments, of .env.example; defaults come from the class."""
    fields = {variable_name(name): field for name, field in Settings.model_fields.items()}
    sections: list[str] = []
    rows: list[str] = []
    comment: list[str] = []
    linked = re.sub(r"docs/([\w-]+)\.md", r"[\1](../\1.md)", example)
    for line in [*linked.splitlines(), "# ---  ---"]:
        if heading := re.fullmatch(r"# --- (.*) ---", line):
            sections += [_table(("variable", "default", ""), rows)] if rows else []
            sections += [f"## {heading[1]}"] if heading[1] else []
            rows, comment = [], []
        elif setting := re.match(r"#(\w+)=", line):
            if setting[1] in fields:
                rows.append(_row((f"`{setting[1]}`", _default(fields[setting[1]]), " ".join(comment))))
            comment = []
        else:
            comment = [*comment, line.removeprefix("# ")] if line else []
    about = (
        "Environment variables, also from the file `.env` that langgraph.json names. An empty value counts as unset. "
        "A comment may concern the variables below it, too."
    )
    return _page("Settings", about, sections)


def _default(field: Any) -> str:
    value = field.get_default(call_default_factory=True)
    if value in (None, (), {}) or not isinstance(value, bool | int | float | str | Path):
        return ""
    text = str(value) if isinstance(value, str | Path) else json.dumps(value)
    return f"`{text.removesuffix('.0')}`"


def decisions_page() -> str:
    """List the pages in docs/decisions by their headings."""
    files = sorted((DOCS / "decisions").glob("0*.md"))
    headings = (path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in files)
    listed = [f"* [{heading}]({path.name})" for heading, path in zip(headings, files, strict=True)]
    return _page("Decisions", "What a reader of the code would question, and why it is so.", ["\n".join(listed)])


def _page(title: str, about: str, sections: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}\n{WRITTEN}", about, *sections]) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _table(heads: tuple[str, ...], rows: Iterable[str]) -> str:
    return "\n".join([_row(heads), "|" + "---|" * len(heads), *rows])


def main() -> None:
    for name, text in pages().items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
