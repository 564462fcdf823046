"""Write docs/tools from the code: `python -m scripts.tool_pages`. Every example is executed to be written (C-08).

The test tests/servers/test_tool_pages.py does it again and compares.
"""

import asyncio
import importlib
import json
import pkgutil
import re
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fastmcp import Client
from mcp.types import TextContent, Tool, ToolAnnotations
from scripts.tool_examples import CORE_EXAMPLES, JOB_ID, JOBS, TODO_EXAMPLES, TODOS, Example, Examples

from tests.fixtures.core_world import CoreWorld, core_world
from toolweave.config.settings import Settings, variable_name
from toolweave.servers import todo
from toolweave.servers.core import files, query, server
from toolweave.servers.core.server import open_core_server
from toolweave.servers.error_codes import (
    ERROR_CODES,
    INTERNAL,
    INVALID_PARAMETER,
    MISSING_PARAMETER,
    TIMEOUT,
    TOO_LARGE,
    UNAVAILABLE,
    UNKNOWN_PARAMETER,
    ErrorCode,
)
from toolweave.servers.todo.server import open_todo_server

DOCS = Path(__file__).parent.parent / "docs"
WRITTEN = "<!-- Written by scripts/tool_pages.py from the code and scripts/tool_examples.py. -->"
CODES_OF_ALL = (MISSING_PARAMETER, UNKNOWN_PARAMETER, INVALID_PARAMETER, TOO_LARGE, TIMEOUT, UNAVAILABLE, INTERNAL)
# What differs from run to run, and what stands for it.
MOMENT = "2026-11-22T09:30:00Z"
_VARYING = (
    (re.compile(r'(?<="duration_ms": )[\d.]+'), "1.5"),
    (re.compile(r"(?<=after )\d+(?= ms)"), "4"),
    (re.compile(r'(?<=_at": ")[^"]*(?=")'), MOMENT),
    (re.compile(r"\b[0-9a-f]{32}\b"), JOB_ID),
)


@dataclass(frozen=True)
class Area:
    """Tools that share a package or module and the settings that begin with its word."""

    server: str
    package: ModuleType
    settings: str | None
    tools: tuple[str, ...]


AREAS = (
    Area("core", query, "query_", ("query_database",)),
    Area("core", server, "job_", ("execute_job", "check_job_status")),
    Area("core", files, "file_", ("read_file", "search_files")),
    Area("todo", todo, None, tuple(TODO_EXAMPLES)),
)
EXAMPLES: Mapping[str, Examples] = {**CORE_EXAMPLES, **TODO_EXAMPLES}


async def pages(folder: Path) -> dict[str, str]:
    """Write every page, by its name in docs/tools; `folder` is an empty one for the world of the examples."""
    async with core_world(folder) as world:
        made = Maker(world)
        tools = await made.tools()
        written = {f"{name}.md": await made.page(tools[name], area) for area in AREAS for name in area.tools}
    return {"README.md": index(tools), **written}


def index(tools: Mapping[str, Tool]) -> str:
    """Write the page that lists the pages."""
    rows = [
        f"| [`{name}`]({name}.md) | {area.server} | {_first_sentence(tools[name])} |"
        for area in AREAS
        for name in area.tools
    ]
    about = (
        "Every tool answers in one envelope ([decision 7](../decisions/0007-tools-answer-in-one-envelope.md)). What "
        "the operator should know, and all error codes, are in [core-tools.md](../core-tools.md)."
    )
    return "\n".join(
        ["# The tools of our own servers", WRITTEN, "", about, "", "| tool | server | |", "|---|---|---|", *rows, ""]
    )


def codes_table(codes: Iterable[ErrorCode]) -> str:
    """Write rows of the code table."""
    rows = [f"| `{row.code}` | {row.type} | {row.meaning} | {row.suggestion} |" for row in codes]
    return "\n".join(["| code | type | when | what to do |", "|---|---|---|---|", *rows])


class Maker:
    """Make pages of the tools, each example in a server that nothing was done in before."""

    def __init__(self, world: CoreWorld) -> None:
        self._world = world
        self._servers = 0

    async def tools(self) -> dict[str, Tool]:
        listed: dict[str, Tool] = {}
        for name in ("core", "todo"):
            async with self._client(name) as client:
                listed |= {tool.name: tool for tool in await client.list_tools()}
        return listed

    async def page(self, tool: Tool, area: Area) -> str:
        examples = EXAMPLES[tool.name]
        successes = [await self._shown(tool.name, area, one) for one in examples if not one.fails]
        failures = [await self._shown(tool.name, area, one) for one in examples if one.fails]
        return "\n\n".join(
            [
                f"# `{tool.name}`: {tool.title or (tool.annotations and tool.annotations.title)}\n{WRITTEN}",
                f"A tool of the server `{area.server}`. {_effects(tool.annotations)}",
                *_paragraphs(tool.description or ""),
                "## Parameters",
                _parameters(tool.inputSchema),
                *_settings_section(area),
                "## Examples",
                *successes,
                "## When it fails",
                *failures,
                "### The codes it may answer with",
                codes_table(_codes_of(area)),
                "The suggestion in an answer may be more precise than the one here.\n",
            ]
        )

    async def _shown(self, tool: str, area: Area, example: Example) -> str:
        async with self._client(area.server) as client:
            names = {JOBS: self._world.jobs_url}
            if example.job is not None:
                names[JOB_ID] = await self._ended_job(client, str(example.arguments["endpoint"]), example.job)
            answer = await _answer(client, tool, _renamed(example.arguments, names))
            assert (answer["status"] == "error") is example.fails, (tool, example, answer)
        text = json.dumps(answer, indent=2, ensure_ascii=False).replace(self._world.jobs_url, JOBS)
        for varying, shown in _VARYING:
            text = varying.sub(shown, text)
        call = json.dumps(example.arguments, indent=2, ensure_ascii=False)
        return f"### {example.title}\n\n```json\n{call}\n```\n\nanswers\n\n```json\n{text}\n```"

    async def _ended_job(self, client: Client[Any], endpoint: str, params: dict[str, Any]) -> str:
        place = {"endpoint": endpoint.replace(JOBS, self._world.jobs_url)}
        job_id = str((await _answer(client, "execute_job", {**place, "params": params}))["data"]["job_id"])
        ended = False
        while not ended:
            answer = await _answer(client, "check_job_status", {**place, "job_id": job_id, "wait_s": 3})
            ended = answer["metadata"]["finished"]
        return job_id

    @asynccontextmanager
    async def _client(self, server: str) -> AsyncIterator[Client[Any]]:
        if server == "core":
            async with open_core_server(self._world.settings()) as core, Client(core) as client:
                yield client
            return
        self._servers += 1
        url = f"sqlite+aiosqlite:///{self._world.folder / f'todo-{self._servers}.db'}"
        async with open_todo_server(url) as todos, Client(todos) as client:
            for arguments in TODOS:
                await client.call_tool("create_todo", arguments)
            yield client


async def _answer(client: Client[Any], tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = await client.call_tool_mcp(tool, arguments)
    (content,) = result.content
    assert isinstance(content, TextContent)
    answer: dict[str, Any] = json.loads(content.text)
    return answer


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    text = json.dumps(value)
    for shown, real in names.items():
        text = text.replace(shown, real)
    return json.loads(text)


def _effects(hints: ToolAnnotations | None) -> str:
    assert hints is not None
    told = ["It only reads." if hints.readOnlyHint else "It changes something."]
    if hints.destructiveHint:
        told.append("What is there may be lost by it.")
    if not hints.readOnlyHint:
        again = "changes nothing more" if hints.idempotentHint else "does it again"
        told.append(f"A second call with the same parameters {again}.")
    if hints.openWorldHint:
        told.append("It talks to services outside.")
    return " ".join(told)


def _first_sentence(tool: Tool) -> str:
    return re.split(r"(?<=\.)\s", " ".join((tool.description or "").split()))[0]


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _parameters(schema: Mapping[str, Any]) -> str:
    rows = [
        "| " + " | ".join(text.replace("|", "\\|") for text in row) + " |"
        for name, given in schema["properties"].items()
        for row in _rows(name, given, required=name in schema.get("required", ()))
    ]
    return "\n".join(["| parameter | what it must be | default | what it is |", "|---|---|---|---|", *rows])


def _rows(name: str, schema: Mapping[str, Any], *, required: bool) -> Iterator[tuple[str, str, str, str]]:
    default = "required" if required else f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
    examples = ", ".join(f"`{json.dumps(value, ensure_ascii=False)}`" for value in schema.get("examples", ()))
    meaning = schema.get("description", "") + (f" Such as {examples}." if examples else "")
    yield f"`{name}`", expectation(schema), default, meaning
    for form in (schema, *schema.get("anyOf", ())):
        entry = form.get("items", {})
        for inner, given in entry.get("properties", {}).items():
            yield from _rows(f"{name}[].{inner}", given, required=inner in entry.get("required", ()))


def expectation(schema: Mapping[str, Any], *, with_entries: bool = True) -> str:
    """Put a JSON Schema into words: "a whole number from 1 to 100", "one of low, medium, high"."""
    forms = dict.fromkeys(_of_form(form, with_entries=with_entries) for form in schema.get("anyOf", [schema]))
    if "a number" in forms:
        forms.pop("a whole number", None)
    # Where a form is a listing, another comma would read as one more of it.
    return ("; or " if any("," in form for form in forms) else " or ").join(forms)


def _of_form(schema: Mapping[str, Any], *, with_entries: bool) -> str:
    if "enum" in schema:
        return f"one of {', '.join(str(value) for value in schema['enum'])}"
    match schema.get("type"):
        case "string":
            matching = f" that matches {schema['pattern']}" if "pattern" in schema else ""
            return f"text{_span(schema, 'minLength', 'maxLength', ' characters')}{matching}"
        case "integer":
            return f"a whole number{_span(schema, 'minimum', 'maximum')}"
        case "number":
            return f"a number{_span(schema, 'minimum', 'maximum')}"
        case "boolean":
            return "true or false"
        case "array":
            span = _span(schema, "minItems", "maxItems", " entries")
            # A list may hold lists of its own kind.
            entries = expectation(schema.get("items", {}), with_entries=False) if with_entries else None
            return f"a list{span}, each {entries}" if entries else f"a list{span}"
        case "object":
            names = ", ".join(schema.get("properties", {}))
            return f"an object with {names}" if names else "an object"
    return "a valid value"


def _span(schema: Mapping[str, Any], low: str, high: str, unit: str = "") -> str:
    # 3.0 is written as 3.
    least, most = (int(bound) if bound == bound // 1 else bound for bound in (schema.get(low, 0), schema.get(high, 0)))
    if low not in schema and high not in schema:
        return ""
    if low in schema and high in schema:
        return f" of {least} to {most}{unit}" if unit else f" from {least} to {most}"
    bound, most_or_least = (most, "most") if high in schema else (least, "least")
    return f" of at {most_or_least} {bound}{unit.replace('ies', 'y').removesuffix('s') if bound == 1 else unit}"


def _settings_section(area: Area) -> list[str]:
    if area.settings is None:
        return []
    names = [name for name in Settings.model_fields if name.startswith(area.settings)]
    listed = ", ".join(f"`{variable_name(name)}`" for name in names)
    return [f"What it may do is set by the operator: {listed} ([core-tools.md](../core-tools.md))."]


def _codes_of(area: Area) -> list[ErrorCode]:
    used = set(CODES_OF_ALL)
    inner = pkgutil.iter_modules(getattr(area.package, "__path__", ()), f"{area.package.__name__}.")
    modules = [importlib.import_module(each.name) for each in inner if not each.name.endswith("__main__")]
    for module in (area.package, *modules):
        used |= {value for value in vars(module).values() if isinstance(value, ErrorCode)}
    return [row for row in ERROR_CODES if row in used]


def with_codes(page: str) -> str:
    """Put the table of all codes into docs/core-tools.md, between its marks."""
    begin, end = "<!-- codes -->\n", "\n<!-- end of codes -->"
    before, _, rest = page.partition(begin)
    return f"{before}{begin}{codes_table(ERROR_CODES)}{end}{rest.partition(end)[2]}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = await pages(Path(folder))
    (DOCS / "tools").mkdir(exist_ok=True)
    for name, text in written.items():
        (DOCS / "tools" / name).write_text(text, encoding="utf-8")
    operators = DOCS / "core-tools.md"
    operators.write_text(with_codes(operators.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"{len(written)} pages in {DOCS / 'tools'}")


if __name__ == "__main__":
    asyncio.run(main())
