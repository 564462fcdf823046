"""Check settings, langgraph.json and the graphs it names."""

from collections.abc import Iterator
from pathlib import Path

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from toolweave.api.langgraph.app import make_importable
from toolweave.api.langgraph.auth.handlers import load_auth
from toolweave.api.langgraph.custom_app import load_custom_app
from toolweave.cli.configuration import find_langgraph_json
from toolweave.cli.doctor import Finding, failure
from toolweave.config.langgraph_json import LangGraphJson
from toolweave.config.settings import Settings, load_settings, unknown_variables
from toolweave.errors import ToolweaveError
from toolweave.runtime.graphs import GraphRegistry, load_graph


def check_settings(data_dir: Path | None) -> tuple[list[Finding], Settings | None]:
    """Read the settings; variables of ours that set nothing are probably misspelt."""
    findings = [
        Finding("warn", "settings", f"the environment variable {name} sets nothing.", "Correct its name, or unset it.")
        for name in unknown_variables()
    ]
    try:
        settings = load_settings(data_dir=data_dir)
    except ToolweaveError as error:
        return [*findings, failure("settings", error)], None
    return [*findings, Finding("ok", "settings", "every variable has a value of the right form.")], settings


def check_langgraph_json(config: Path | None) -> tuple[list[Finding], LangGraphJson | None]:
    """Read langgraph.json and set its variables, as a server would."""
    try:
        served = find_langgraph_json(config)
    except ToolweaveError as error:
        return [failure("langgraph.json", error)], None
    served.apply_env()
    warnings = [Finding("warn", "langgraph.json", f"{warning}.") for warning in served.warnings]
    where = str(served.path) if served.path.exists() else "there is none here: Toolweave's own graphs are served"
    return [*warnings, Finding("ok", "langgraph.json", f"{where}.")], served


def check_graphs(served: LangGraphJson) -> Iterator[Finding]:
    """Import every graph and the application beside them."""
    make_importable(served)
    for name, entry in served.graphs.items():
        try:
            loaded = {name: load_graph(served, name)}
            GraphRegistry(loaded, {name: None}, checkpointer=InMemorySaver(), store=InMemoryStore())
        except ToolweaveError as error:
            yield failure("graphs", error)
        else:
            yield Finding("ok", "graphs", f"{name} is {entry.target}.")
    try:
        load_custom_app(served)
    except ToolweaveError as error:
        yield failure("http.app", error)
    try:
        load_auth(served)
    except ToolweaveError as error:
        yield failure("auth", error)
