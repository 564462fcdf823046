"""Read what a script job is to do from the two files its environment names, anew for each job (A-05).

`CONFIG_PATH` names the script settings, `MCP_CONFIG_PATH` the MCP servers of the agent that fetches the page. An empty
variable counts as unset.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from toolweave.config.mcp import McpConfig, load_mcp_config, mcp_variables
from toolweave.config.script_settings import ScriptSettings, load_script_settings
from toolweave.config.settings import Settings, load_settings
from toolweave.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """What a script job is to do: with `mcp` an agent fetches the page, without it is fetched by plain HTTP."""

    settings: ScriptSettings = field(default_factory=ScriptSettings)
    mcp: McpConfig | None = None


def read_script_job(environ: Mapping[str, str] | None = None) -> ScriptJob:
    """Read the files that the environment names now; blocks, for as long as reading files takes.

    Raises:
        ConfigError: a file that is named is absent, not readable or wrong; names the variable, the file and the reason.
        MissingVariable: the MCP file refers to variables that are not set.
    """
    given = os.environ if environ is None else environ
    settings = load_settings(given)
    return ScriptJob(
        settings=load_script_settings(settings.config_path, given),
        mcp=job_mcp_config(settings.mcp_config_path, settings, given) if settings.mcp_config_path else None,
    )


def job_mcp_config(path: Path, settings: Settings, environ: Mapping[str, str] | None = None) -> McpConfig:
    """Load the MCP servers of a job: every variable that they refer to has to be set.

    Raises:
        ConfigError: the file is absent, wrong, or enables no server; names the file and the reason.
        MissingVariable: variables that it refers to are not set.
    """
    config = load_mcp_config(path, mcp_variables(settings, environ), strict=True, settings=settings)
    if not any(server.enabled for server in config.servers):
        raise ConfigError("enables no MCP server.", source=str(path), fix="Enable one, or unset MCP_CONFIG_PATH.")
    return config

