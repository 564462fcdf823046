"""Load the configuration of a script job, for each job again (A-05).

`CONFIG_PATH` names the script settings, `MCP_CONFIG_PATH` the MCP servers of the agent that fetches the page. An empty
variable counts as unset. A relative path starts at the working directory of the process; paths inside the MCP
file start at that file's folder.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from loguru import logger

from toolweave.config.mcp import McpConfig, load_mcp_config, mcp_variables
from toolweave.config.script_settings import ScriptSettings, load_script_settings
from toolweave.config.settings import Settings, load_settings, variable_name
from toolweave.errors import ConfigError, MissingVariable


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """Configuration of a script job: with `mcp` an agent fetches the page, otherwise plain HTTP does."""

    settings: ScriptSettings = field(default_factory=ScriptSettings)
    mcp: McpConfig | None = None


def read_script_job(environ: Mapping[str, str] = os.environ) -> ScriptJob:
    """Read the files that the environment names now; this blocks the calling thread.

    Raises:
        ConfigError: a file is absent, unreadable or invalid; names the variable, the file with the line, and the
            reason, without values.
        MissingVariable: the MCP file refers to variables that are not set.
    """
    settings = load_settings(environ)
    return ScriptJob(settings=env_script_settings(settings, environ), mcp=env_mcp_config(settings, environ))


def env_script_settings(settings: Settings, environ: Mapping[str, str] = os.environ) -> ScriptSettings:
    """Load the script settings that CONFIG_PATH names; return the documented defaults if it is unset.

    Raises:
        ConfigError: as `read_script_job`.
    """
    with _variable_in_errors("config_path"):
        return load_script_settings(settings.config_path and settings.config_path.absolute(), environ)


def env_mcp_config(settings: Settings, environ: Mapping[str, str] = os.environ) -> McpConfig | None:
    """Load the MCP servers that MCP_CONFIG_PATH names; return None if it is unset.

    Raises:
        ConfigError, MissingVariable: as `read_script_job`.
    """
    if settings.mcp_config_path is None:
        return None
    with _variable_in_errors("mcp_config_path"):
        return load_required_servers(settings.mcp_config_path.absolute(), settings, environ)


def load_required_servers(path: Path, settings: Settings, environ: Mapping[str, str] = os.environ) -> McpConfig:
    """Load the MCP servers of a job; every variable of enabled servers must be set.

    Raises:
        ConfigError: the file is absent, invalid, or enables no server; names the file and the reason.
        MissingVariable: variables that the file refers to are not set.
    """
    config = load_mcp_config(path, mcp_variables(settings, environ), strict=True, settings=settings)
    for warning in config.warnings:
        logger.warning("the MCP servers of a script job: {}", warning)
    if not any(server.enabled for server in config.servers):
        raise ConfigError("enables no MCP server.", source=str(path), fix="Enable one that can fetch pages.")
    return config


@contextmanager
def _variable_in_errors(setting: str) -> Iterator[None]:
    """Add the environment variable that names the file to errors."""
    variable = variable_name(setting)
    try:
        yield
    except MissingVariable as error:
        raise MissingVariable(error.names, source=f"{variable} ({error.source})") from None
    except ConfigError as error:
        raise ConfigError(error.message, source=f"{variable} ({error.source})", fix=error.fix) from None
