"""Hold every setting of a Toolweave process; nothing outside this room reads the environment."""

import difflib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from toolweave.config.job_endpoints import JobEndpoint, JobHeaders, read_job_endpoints, read_job_headers
from toolweave.config.outbound_allow import AllowedTarget, allowed_targets
from toolweave.config.problems import sentences
from toolweave.config.setting_types import (
    comma_separated,
    comma_separated_texts,
    command_line,
    data_folder,
    expanded_path,
    http_url,
    json_object_of_strings,
    upper_case,
)
from toolweave.config.tool_variables import ToolVariables, tool_variables
from toolweave.config.webhook_secret import signing_keys
from toolweave.errors import ConfigError

PREFIX = "TOOLWEAVE_"
# Set by us for the configuration files we ship, never a setting of their own.
_ONLY_IN_CONFIGURATION_FILES = ("TOOLWEAVE_PYTHON",)

LogLevel = Literal["TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Url = Annotated[str, BeforeValidator(http_url)]


class Settings(BaseSettings):
    """Settings as fields; `load_settings` fills them from `TOOLWEAVE_<FIELD>` variables.

    Constructing `Settings(...)` directly takes arguments and defaults only and never looks at the environment.
    Secrets show neither in `repr` nor in validation errors (D-3).
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True
    )

    model: str | None = None
    openrouter_api_key: SecretStr | None = Field(default=None, validation_alias="OPENROUTER_API_KEY")
    gemini_api_key: SecretStr | None = Field(default=None, validation_alias="GEMINI_API_KEY")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: Url | None = Field(default=None, validation_alias="OPENAI_BASE_URL", repr=False)
    model_timeout_s: Seconds = 60.0

    data_dir: Annotated[Path, BeforeValidator(data_folder)] = Path(".toolweave")
    mcp_config: Annotated[Path, BeforeValidator(expanded_path)] | None = None
    todo_command: Annotated[str, BeforeValidator(command_line)] | None = Field(default=None, repr=False)
    todo_env: Annotated[dict[str, str], NoDecode, BeforeValidator(json_object_of_strings)] = Field(
        default_factory=dict, repr=False
    )
    todo_timeout_s: Seconds | None = None
    todo_database_url: str | None = Field(default=None, repr=False)

    tools_database_url: str | None = Field(default=None, repr=False)
    tool_env: Annotated[ToolVariables, NoDecode, BeforeValidator(tool_variables)] = ToolVariables()

    query_database_url: str | None = Field(default=None, repr=False)
    query_tables: str = Field(default="todos", repr=False)
    query_max_rows: int = Field(default=1_000, ge=1, le=100_000)
    query_timeout_s: Seconds = 3.0
    query_role: str | None = Field(default=None, repr=False)
    query_forbidden: str | None = Field(default=None, repr=False)
    query_guardrail: str | None = Field(default=None, repr=False)
    job_endpoints: Annotated[tuple[JobEndpoint, ...], NoDecode, BeforeValidator(read_job_endpoints)] = Field(
        default=(), repr=False
    )
    job_headers: Annotated[tuple[JobHeaders, ...], NoDecode, BeforeValidator(read_job_headers)] = Field(
        default=(), repr=False
    )
    # Below the limit of every tool, so that it is the job's endpoint that is named.
    job_timeout_s: float = Field(default=3.5, gt=0, le=3.8, allow_inf_nan=False)
    file_roots: Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_separated_texts)] = Field(
        default=(), repr=False
    )
    file_ignore: Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_separated_texts)] = Field(
        default=(), repr=False
    )
    file_max_bytes: int = Field(default=1_000_000, ge=1, le=20_000_000)
    core_token: SecretStr | None = None
    core_jwks_url: Url | None = Field(default=None, repr=False)
    core_jwt_public_key: Annotated[Path, BeforeValidator(expanded_path)] | None = Field(default=None, repr=False)
    core_jwt_issuer: str | None = Field(default=None, repr=False)
    core_jwt_audience: str | None = Field(default=None, repr=False)

    config_path: Annotated[Path, BeforeValidator(expanded_path)] | None = Field(
        default=None, validation_alias="CONFIG_PATH"
    )
    mcp_config_path: Annotated[Path, BeforeValidator(expanded_path)] | None = Field(
        default=None, validation_alias="MCP_CONFIG_PATH"
    )

    token_store: Literal["auto", "keyring", "file"] = "auto"  # noqa: S105 - the name of a place
    token_key: SecretStr | None = None

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=2024, ge=0, le=65535)
    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(comma_separated)] = ()
    allow_insecure_bind: bool = False
    api_url: Url | None = Field(default=None, repr=False)

    outbound_allow: Annotated[tuple[AllowedTarget, ...], NoDecode, BeforeValidator(allowed_targets)] = ()
    webhook_secret: Annotated[SecretStr, BeforeValidator(signing_keys)] | None = None

    log_level: Annotated[LogLevel, BeforeValidator(upper_case)] = "INFO"
    log_format: Literal["auto", "human", "json"] = "auto"
    mcp_log: Literal["full", "ids", "off"] = "full"

    max_iterations: int = Field(default=10, ge=1)
    on_iteration_limit: Literal["end", "error", "summarize"] = "end"
    max_concurrent_runs: int = Field(default=100, ge=1)
    max_tools: int = Field(default=64, ge=1, le=128)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments only: `load_settings` passes in the environment it was given."""
        return (init_settings,)


class _Environment(EnvSettingsSource):
    """Read the settings' variables from a given mapping; an empty value counts as unset."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(Settings)
        self.env_vars = {name.lower(): value for name, value in environ.items() if value.strip()}


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Read the settings from `environ` (default: the process's); `overrides` win, None ones are ignored.

    Raises:
        ConfigError: a value is of the wrong type or range; names every such variable, shows no value.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    values = _Environment(os.environ if environ is None else environ)()
    try:
        return Settings(**(values | {_input_key(name): value for name, value in given.items()}))
    except ValidationError as error:
        shown = {_input_key(field): variable_name(field) for field in Settings.model_fields}
        shown |= {_input_key(name): name for name in given}
        raise ConfigError(
            " ".join(f"{shown[str(location[0])]} {expected}." for location, expected in sentences(error)),
            source="settings",
            fix="Correct the value, or unset it to use the default.",
        ) from None


def publish_settings(settings: Settings, fields: Iterable[str]) -> None:
    """Set the variables of `fields` in the process's environment, for code that reads its own settings later."""
    os.environ.update({variable_name(field): str(getattr(settings, field)) for field in fields})


def environment() -> dict[str, str]:
    """Copy the process's environment, for another process that is to start as this one did."""
    return dict(os.environ)


def variable_name(field: str) -> str:
    """Name the environment variable that sets `field`."""
    alias = Settings.model_fields[field].validation_alias if field in Settings.model_fields else None
    return alias if isinstance(alias, str) else f"{PREFIX}{field.upper()}"


def unknown_variables(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """List the `TOOLWEAVE_` variables that set nothing, each with the nearest known name; never a value."""
    known = [variable_name(field) for field in Settings.model_fields]
    names = os.environ if environ is None else environ
    return tuple(
        _with_nearest(name, known)
        for name in sorted(names)
        if name.upper().startswith(PREFIX) and name.upper() not in (*known, *_ONLY_IN_CONFIGURATION_FILES)
    )


def _with_nearest(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.75)
    return f"{name} (did you mean {nearest[0]}?)" if nearest else name


def _input_key(field: str) -> str:
    info = Settings.model_fields.get(field)
    return info.validation_alias if info and isinstance(info.validation_alias, str) else field
