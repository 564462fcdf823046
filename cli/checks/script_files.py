"""Check the two files that script jobs read: settings and MCP servers (A-05)."""

from collections.abc import Iterator

from toolweave.cli.doctor import Finding, failure
from toolweave.config.script_job import named_mcp_config, named_script_settings
from toolweave.config.settings import Settings
from toolweave.errors import ConfigError
from toolweave.nodes.chat_models import script_endpoint


def check_script_files(settings: Settings) -> Iterator[Finding]:
    """Say whether each file that is named can be used; a server starts in any case, but the jobs would fail."""
    if settings.config_path is not None:
        try:
            script_endpoint(settings, named_script_settings(settings))
        except ConfigError as error:
            yield failure("script settings", error)
        else:
            yield Finding("ok", "script settings", f"{settings.config_path}.")
    try:
        config = named_mcp_config(settings)
    except ConfigError as error:
        yield failure("script servers", error)
    else:
        if config is not None:
            enabled = ", ".join(server.name for server in config.servers if server.enabled)
            yield Finding("ok", "script servers", f"{settings.mcp_config_path} enables {enabled}.")
