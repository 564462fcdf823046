"""Hold every setting of a Toolweave process; nothing outside this room reads the environment."""

import base64
import binascii
import difflib
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from toolweave.config.documents import sentences
from toolweave.config.outbound_allow import (
    AllowedTarget,
    JobEndpoint,
    JobHeaders,
    allowed_targets,
    read_job_endpoints,
    read_job_headers,
)
from toolweave.config.variables import ToolVariables, tool_variables
from toolweave.errors import ConfigError


def comma_separated(value: Any) -> Any:
    """Split origins at commas; each must be `*` or scheme://host[:port]."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    return tuple(_origin(part) for part in value) if isinstance(value, list | tuple) else value


def comma_separated_texts(value: Any) -> Any:
    """Split at commas, without the spaces around."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _origin(text: Any) -> str:
    if text == "*":
        return "*"
    origin = str(text).rstrip("/")
    if not is_http_url(origin) or origin.count("/") != 2:
        raise ValueError("each origin must be * or http(s)://host[:port], separated by commas")
    return origin


def json_object_of_strings(value: Any) -> Any:
    """Parse a JSON object whose values are strings, such as `{"NAME": "value"}`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError('must be a JSON object of strings, such as {"NAME": "value"}')
    return value


def http_url(value: Any) -> Any:
    """Accept an http or https URL with a host."""
    if isinstance(value, str) and not is_http_url(value):
        raise ValueError("must be an http:// or https:// URL")
    return value


def is_http_url(text: str) -> bool:
    """Tell whether `text` is an absolute http(s) URL without spaces or control characters."""
    if any(character.isspace() or not character.isprintable() for character in text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def expanded_path(value: Any) -> Any:
    """Expand a leading `~`: no shell has done it for a variable that came from a file. As there, `~nobody` stays."""
    try:
        return Path(value).expanduser() if isinstance(value, str | Path) else value
    except RuntimeError:
        return Path(value)


def data_folder(value: Any) -> Any:
    """Take a path that can be part of a database URL."""
    path = expanded_path(value)
    if isinstance(path, Path) and "?" in str(path.absolute()):
        raise ValueError("must be a folder without '?' in its path, which ends the path in a database URL")
    return path


def command_line(value: Any) -> Any:
    """Accept what a shell would split into a program and its arguments."""
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            words = []
        if not words:
            raise ValueError("must be a program and its arguments, with every quotation closed")
    return value


def upper_case(value: Any) -> Any:
    """Take level names in any case."""
    return value.upper() if isinstance(value, str) else value


_KEY_PREFIX = "whsec_"
_LEAST_BYTES, _MOST_BYTES = 24, 64


def webhook_keys(text: str) -> tuple[bytes, ...]:
    """Decode the keys, separated by spaces: all of them sign, so that a receiver can change from one to the next.

    Raises:
        ValueError: a key is not of the form; the text is not repeated.
    """
    keys = tuple(_key(word) for word in text.split())
    if not keys:
        raise _wrong_key()
    return keys


def signing_keys(value: Any) -> Any:
    """Refuse a setting that webhook_keys cannot read."""
    if isinstance(value, str):
        webhook_keys(value)
    return value


def _key(word: str) -> bytes:
    if not word.startswith(_KEY_PREFIX):
        raise _wrong_key()
    try:
        key = base64.b64decode(word.removeprefix(_KEY_PREFIX), validate=True)
    except binascii.Error:
        raise _wrong_key() from None
    if not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise _wrong_key()
    return key


def _wrong_key() -> ValueError:
    return ValueError(
        f"must be {_KEY_PREFIX} and then {_LEAST_BYTES} to {_MOST_BYTES} random bytes in base64, such as "
        f'"{_KEY_PREFIX}$(openssl rand -base64 32)" gives'
    )


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


_TABLES_SETTING = "TOOLWEAVE_QUERY_TABLES"
_TABLES_FIX = 'Write tables as in: todos, customers(id, name), sales.orders, "Order items".'
_NAME = r'(?:"(?:[^"]|"")+"|[^\s",.()]+)'
_COLUMNS = rf"\(\s*(?P<columns>{_NAME}(?:\s*,\s*{_NAME})*)\s*,?\s*\)"
_TABLE = re.compile(rf"\s*(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\s*(?:{_COLUMNS})?\s*(?:,\s*|$)")
_MOST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class AllowedTable:
    """A table that may be read; `schema` None stands for the database's own choice, `columns` None for all."""

    name: str
    schema: str | None = None
    columns: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        """Return the name that callers use."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


def query_tables(text: str) -> tuple[AllowedTable, ...]:
    """Split at commas; each part is `table`, `schema.table` or either with `(column, …)`, odd names in double quotes.

    Raises:
        ConfigError: it is not such a list, or names a table or a column of one twice; says where.
    """
    tables: dict[str, AllowedTable] = {}
    place = 0
    while place < len(text) and text[place:].strip(" \t\r\n,"):
        found = _TABLE.match(text, place)
        if found is None:
            raise _wrong_tables(f"this is no list of tables from {text[place:].strip()[:_MOST_SHOWN]!r} on.")
        table = _table(found)
        if table.label in tables:
            raise _wrong_tables(f"it names the table {table.label} twice.")
        tables[table.label] = table
        place = found.end()
    return tuple(tables.values())


def _table(found: re.Match[str]) -> AllowedTable:
    name, schema = _unquoted(found["name"]), found["schema"]
    columns = tuple(_unquoted(part) for part in re.findall(_NAME, found["columns"])) if found["columns"] else None
    if columns and len(set(columns)) < len(columns):
        raise _wrong_tables(f"it names a column of {name} twice.")
    return AllowedTable(name, _unquoted(schema) if schema else None, columns)


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _wrong_tables(what: str) -> ConfigError:
    return ConfigError(what, source=_TABLES_SETTING, fix=_TABLES_FIX)
