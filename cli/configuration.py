"""Read langgraph.json and the settings: from options, then the environment, then langgraph.json's env."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from toolweave.config.langgraph_json import GraphEntry, HttpEntry, LangGraphJson, load_langgraph_json, read_dotenv
from toolweave.config.settings import Settings, export_settings, load_settings

LANGGRAPH_JSON = Path("langgraph.json")
DOTENV = ".env"
# Used without a langgraph.json; the file of that name in our repository has the same content.
DEFAULT_LANGGRAPH_JSON = LangGraphJson(
    path=LANGGRAPH_JSON,
    graphs={
        name: GraphEntry(target=f"toolweave.graphs.served:{name}", description=description)
        for name, description in (
            ("agent_loop", "An agent with the tools of all configured MCP servers"),
            ("todo_agent", "Manages a todo list in plain language"),
            ("workflow", "Turns an instruction into one request to a registered HTTP API"),
            ("script_writer", "Writes the script of a narrated video from the URL of a page"),
        )
    },
    http=HttpEntry(app="toolweave.api.app:app"),
)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The langgraph.json.", show_default="./langgraph.json, else Toolweave's graphs"
    ),
]

DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder of the databases.", show_default=".toolweave")
]


@dataclass(frozen=True, slots=True)
class Configuration:
    """The langgraph.json to serve, and the settings."""

    langgraph_json: LangGraphJson
    settings: Settings

    @property
    def has_toolweave_routes(self) -> bool:
        """Return whether Toolweave's own routes, such as /health, are served beside the graphs."""
        return self.langgraph_json.http.app == DEFAULT_LANGGRAPH_JSON.http.app

    @property
    def has_toolweave_graphs(self) -> bool:
        """Return whether any graph is one of Toolweave's own, which use the model of the settings."""
        return any(entry.target.startswith("toolweave.") for entry in self.langgraph_json.graphs.values())


def read_configuration(config: Path | None = None, **options: Any) -> Configuration:
    """Read langgraph.json, set its variables where the environment has none, and read the settings.

    `options` are settings from the command line. They are published as environment variables, too: the application
    that langgraph.json names reads its own settings when it starts.

    Raises:
        ConfigError: a file or a setting is invalid; names it and the fix.
    """
    langgraph_json = find_langgraph_json(config)
    langgraph_json.apply_env()
    provided = {name: value for name, value in options.items() if value is not None}
    settings = load_settings(**provided)
    export_settings(settings, provided)
    return Configuration(langgraph_json, settings)


def find_langgraph_json(config: Path | None) -> LangGraphJson:
    """Load `config`, else ./langgraph.json; without either, return our own graphs with the variables of ./.env.

    Raises:
        ConfigError: a file cannot be read or is invalid.
    """
    if config is None and not LANGGRAPH_JSON.exists():
        return DEFAULT_LANGGRAPH_JSON.model_copy(update={"env": read_dotenv(Path(DOTENV))})
    return load_langgraph_json(config or LANGGRAPH_JSON)
