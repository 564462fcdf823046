"""The names that others write down stay as they are: each list beside this file is what the product has now.

Imports, commands, settings, keys of configuration files, metrics, log fields, entry points and endpoints. A name that
is missing or not listed fails with the lines to add or to delete.
"""

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import httpx
import pytest
import typer
from fastmcp import Client
from langgraph_sdk import get_sync_client
from prometheus_client.parser import text_string_to_metric_families
from pydantic import AliasChoices, BaseModel
from starlette.routing import Mount, WebSocketRoute

import toolweave
import toolweave.graphs
from tests.fixtures.app_server import OURS, AppProcess, wait_for_servers
from toolweave.api.app import create_app
from toolweave.api.langgraph.app import create_langgraph_app
from toolweave.cli.commands import app as command_line
from toolweave.config.langgraph_json import LangGraphJson, load_langgraph_json
from toolweave.config.mcp import mcp_variables
from toolweave.config.mcp_entry import SERVER_KEYS, ServerEntry
from toolweave.config.script_settings import ScriptSettings
from toolweave.config.settings import Settings, variable_name

BOUND_S = 60
HERE = Path(__file__).parent
APP = HERE / "app"
PROJECT = HERE.parents[1]
PAGES = (PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md")), *sorted((PROJECT / "examples").rglob("*.py")))
IMPORT = re.compile(r"from (toolweave[\w.]*) import (\([^)]*\)|[^\n`]+)")
TARGET = re.compile(r"(toolweave[\w.]*):(\w+)")
# Of every program on Python, not of ours.
GENERAL_METRICS = ("python_", "process_")
# What `LangGraphJson` knows beside the keys of the file.
NO_KEYS = {"env_file", "warnings"}


def check(kind: str, now: Iterable[str]) -> None:
    """Compare a list with the names that the product has; order and comments of the list do not matter."""
    listed, found = listed_names(kind), set(now)
    wrong = {
        "These names have disappeared. Give them back, or delete their lines and note it in CHANGELOG.md": listed
        - found,
        "These names are new. Add their lines, and document them": found - listed,
    }
    text = [f"{what}:\n  " + "\n  ".join(sorted(names)) for what, names in wrong.items() if names]
    assert not text, f"tests/public_names/{kind}.txt differs from the product.\n" + "\n".join(text)


def listed_names(kind: str) -> set[str]:
    lines = (HERE / f"{kind}.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def documented_imports() -> Iterator[str]:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        yield from (f"{module}.{name}" for module, name in TARGET.findall(text))
        for module, names in IMPORT.findall(text):
            yield from (
                f"{module}.{name.partition(' as ')[0].strip()}" for name in names.strip("()").split(",") if name
            )


def can_be_imported(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return False


def test_what_can_be_imported_is_listed() -> None:
    graphs = (entry.target.replace(":", ".") for entry in load_langgraph_json(OURS).graphs.values())
    exported = (f"{package.__name__}.{name}" for package in (toolweave, toolweave.graphs) for name in package.__all__)
    # A listed name need not be exported or documented any more, as long as it can be imported.
    now = {*exported, *graphs, *documented_imports(), *listed_names("imports")}
    check("imports", filter(can_be_imported, now))


def commands(command: Any, context: Any, path: str) -> Iterator[str]:
    """Name a command with each of its options, and the commands below it."""
    yield path
    for parameter in command.get_params(context):
        if parameter.param_type_name == "option" and not parameter.hidden:
            yield f"{path} {' '.join(sorted((*parameter.opts, *parameter.secondary_opts)))}"
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        _, below, _ = command.resolve_command(context, [name])
        inner = type(context)(below, info_name=name, parent=context, **below.context_settings)
        yield from commands(below, inner, f"{path} {name}")


def test_commands_and_their_options_are_listed() -> None:
    command = typer.main.get_command(command_line)
    check(
        "commands",
        commands(command, command.make_context("toolweave", ["--help"], resilient_parsing=True), "toolweave"),
    )


def test_settings_are_listed() -> None:
    check("settings", {*map(variable_name, Settings.model_fields), *mcp_variables(Settings(), {})})


def keys(model: type[BaseModel], path: str) -> Iterator[str]:
    """Name the keys that a part of a configuration file may have, and those of the parts within it."""
    for name, field in model.model_fields.items():
        alias = field.validation_alias or field.alias or name
        names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [str(alias)]
        yield from (f"{path}{each}" for each in names if each not in NO_KEYS)
        for part in models_in(field.annotation):
            yield from (key for each in names for key in keys(part, f"{path}{each}."))


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Annotated, Union, UnionType, tuple, dict, list):
        for inner in get_args(annotation):
            yield from models_in(inner)


def test_keys_of_configuration_files_are_listed() -> None:
    langgraph_json = (f"langgraph.json {key}" for key in keys(LangGraphJson, "") if key != "path")
    servers = (f"mcp.jsonc {key}" for key in (*SERVER_KEYS, *keys(ServerEntry, f"{SERVER_KEYS[0]}.*.")))
    scripts = (f"script settings {key}" for key in keys(ScriptSettings, ""))
    check("config_keys", (*langgraph_json, *servers, *scripts))


def test_programs_and_modules_that_can_be_run_are_listed() -> None:
    entries = [f"{entry.group} {entry.name} = {entry.value}" for entry in distribution("toolweave").entry_points]
    package = Path(toolweave.__file__).parent
    # The rooms are links in a checkout, which a search below the package does not follow.
    folders = (package, *(folder for room in package.iterdir() if room.is_dir() for folder in (room, *room.rglob("*"))))
    for main in sorted(path for folder in folders if (path := folder / "__main__.py").is_file()):
        module = ".".join(("toolweave", *main.parent.relative_to(package).parts))
        entries.append(f"python -m {module}")
        if main.parent != package:  # whose options are those of the command
            command = [sys.executable, "-m", module, "--help"]
            text = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout
            entries += [f"python -m {module} {option}" for option in set(re.findall(r"--[a-z-]+", text))]
    check("entry_points", entries)


def operations(routes: Iterable[Any]) -> Iterator[str]:
    for route in routes:
        if isinstance(route, Mount):
            yield f"MOUNT {route.path}"
        elif isinstance(route, WebSocketRoute):
            yield f"WEBSOCKET {route.path}"
        elif path := getattr(route, "path", None):
            # HEAD goes with GET.
            yield from (f"{method} {path}" for method in route.methods - {"HEAD"})


def test_endpoints_are_listed() -> None:
    served = create_langgraph_app(load_langgraph_json(OURS), Settings())
    ours = create_app()
    described = ours.openapi()["paths"]
    methods = (f"{method.upper()} {path}" for path, operation in described.items() for method in operation)
    mounted = operations(route for route in ours.routes if isinstance(route, Mount))
    check("endpoints", (*operations(served.routes), *methods, *mounted))


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AppProcess, Path]]:
    """Serve graphs, tools and servers that give cause for all kinds of log lines and figures."""
    data_dir = tmp_path_factory.mktemp("observed")
    environment = {
        "TOOLWEAVE_MCP_CONFIG": str(APP / "mcp.jsonc"),
        "TOOLWEAVE_LOG_FORMAT": "json",
        "TOOLWEAVE_LOG_LEVEL": "DEBUG",
        "FIXTURES": str(PROJECT / "tests" / "fixtures"),
    }
    process = AppProcess(APP / "langgraph.json", data_dir, environment)
    process.start()
    try:
        use_everything(process, data_dir)
        yield process, data_dir
    finally:
        process.close()


def use_everything(process: AppProcess, data_dir: Path) -> None:
    api = {"base_url": "https://weather.example.com", "path": "/v1/{city}", "method": "GET"}
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = {
        "tool_id": "weather",
        "name": "Weather",
        "description": "Read the weather",
        "api": api,
        "input_schema": schema,
    }
    with httpx.Client(base_url=process.url, timeout=BOUND_S) as http, get_sync_client(url=process.url) as sdk:
        wait_for_servers(process.url)
        http.post("/chat/stream", json={"message": "Add a task to buy milk"}).raise_for_status()
        http.post("/tools", json=tool).raise_for_status()
        # Nobody says which city.
        assert http.post("/workflow", json={"user_instructions": "Weather", "tool_ids": ["weather"]}).status_code == 200
        thread_id = sdk.threads.create()["thread_id"]
        sdk.runs.wait(thread_id, "call", input={"messages": str(data_dir / "calls-of-flaky")})
        sdk.runs.wait(thread_id, "fail", input={}, raise_error=False)
        # The application has no such route, so the webhook is given up.
        sdk.runs.wait(thread_id, "block", input={}, webhook="/nowhere")


async def call_core_tool(url: str) -> None:
    async with Client(f"{url}/ai/mcp") as core:
        await core.call_tool("no_such_tool", {}, raise_on_error=False)


def flat(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from flat(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from flat(inner, f"{path}[]")
    else:
        yield path


def test_metrics_and_their_labels_are_listed(observed: tuple[AppProcess, Path]) -> None:
    process, _ = observed
    text = httpx.get(f"{process.url}/metrics", timeout=BOUND_S).text
    shown = {
        " ".join((sample.name, *sorted(sample.labels)))
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not family.name.startswith(GENERAL_METRICS)
    }
    as_json = httpx.get(f"{process.url}/metrics", params={"format": "json"}, timeout=BOUND_S).json()
    check("metrics", (*shown, *flat(as_json, "?format=json ")))


async def test_fields_of_the_logs_are_listed(observed: tuple[AppProcess, Path]) -> None:
    process, data_dir = observed
    await call_core_tool(process.url)
    for written_late in ('"delivery_id"', '"mcp_level"', '"node": "blocking"', '"meta"'):
        process.wait_for_log(written_late)
    lines = [json.loads(line) for line in process.logs().splitlines() if line.startswith("{")]
    in_lines = {field for line in lines for field in line}
    calls = (data_dir / "logs" / "mcp.jsonl").read_text(encoding="utf-8").splitlines()
    in_calls = {f"mcp.jsonl record.extra.{name}" for line in calls for name in json.loads(line)["record"]["extra"]}
    # Which lines there are depends on the machine's pace, and some lines have more fields than their kind.
    kinds = {kind for kind in listed_names("log_fields") if any(line.keys() >= set(kind.split()) for line in lines)}
    check("log_fields", kinds | in_calls | (in_lines - {field for kind in kinds for field in kind.split()}))
