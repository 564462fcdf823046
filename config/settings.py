"""The settings of a Toolweave process; only this package reads the environment.

It also validates the values: URLs, paths, webhook signing keys, tables for queries. Errors never quote a value.
"""

import base64
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

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)

from toolweave.config.documents import problems_in
from toolweave.config.outbound_allow import (
    AllowedTarget,
    JobEndpoint,
    JobHeaders,
    allowed_targets,
    comma_separated,
    parse_job_endpoints,
    parse_job_headers,
)
from toolweave.config.variables import ToolVariables, parse_tool_variables
from toolweave.errors import ConfigError

PREFIX = "TOOLWEAVE_"
# Set by Toolweave for its shipped configuration files, never read as a setting.
_ONLY_IN_CONFIGURATION_FILES = ("TOOLWEAVE_PYTHON",)
_KEY_PREFIX = "whsec_"
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64


def is_http_url(text: str) -> bool:
    """Return whether `text` is an absolute http(s) URL without spaces or control characters."""
    if any(character.isspace() or not character.isprintable() for character in text):
        return False
    try:
        parts = urlsplit(text)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def check_http_url(text: str) -> str:
    """Return the text if it is an http or https URL with a host; otherwise raise ValueError."""
    if not is_http_url(text):
        raise ValueError("must be an http:// or https:// URL")
    return text


def with_scheme(url: str) -> str:
    """Return the URL with `http://` if it has no scheme, such as localhost:2024."""
    return url if "://" in url else f"http://{url}"


def decode_webhook_keys(text: str) -> tuple[bytes, ...]:
    """Decode webhook signing keys, separated by spaces, in the form of the Standard Webhooks specification.

    Every key signs each delivery, so that a receiver can change from one key to the next.

    Raises:
        ValueError: a key has another form; the error does not quote it.
    """
    words = text.split()
    try:
        keys = tuple(base64.b64decode(word.removeprefix(_KEY_PREFIX), validate=True) for word in words)
    except ValueError:
        keys = ()
    prefixed = all(word.startswith(_KEY_PREFIX) for word in words)
    if not keys or not prefixed or not all(_MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES for key in keys):
        raise ValueError(
            f"must be {_KEY_PREFIX} and then {_MIN_KEY_BYTES} to {_MAX_KEY_BYTES} random bytes in base64, such as "
            f'"{_KEY_PREFIX}$(openssl rand -base64 32)" gives'
        )
    return keys


def _check_origin(text: str) -> str:
    """Return the origin: `*` or scheme://host[:port]; otherwise raise ValueError."""
    origin = text.rstrip("/")
    if text != "*" and (not is_http_url(origin) or origin.count("/") != 2):
        raise ValueError("each origin must be * or http(s)://host[:port], separated by commas")
    return origin


def _parse_string_object(value: Any) -> Any:
    """Parse a JSON object whose values are strings, such as `{"NAME": "value"}`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError('must be a JSON object of strings, such as {"NAME": "value"}')
    return value


def _expand_home(path: Path) -> Path:
    """Expand a leading `~`, which no shell expands in a variable from a file; an unknown `~user` stays."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _check_data_dir(path: Path) -> Path:
    if "?" in str(path.absolute()):
        raise ValueError("must be a folder without '?' in its path, which ends the path in a database URL")
    return path


def _check_postgresql_url(url: str) -> str:
    if urlsplit(url).scheme not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise ValueError("must be a postgresql:// URL")
    return url


def _check_webhook_secret(secret: SecretStr) -> SecretStr:
    decode_webhook_keys(secret.get_secret_value())
    return secret


def _check_command_line(value: str) -> str:
    """Return a command line that splits into a program and its arguments; otherwise raise ValueError."""
    try:
        words = shlex.split(value)
    except ValueError:
        words = []
    if not words:
        raise ValueError("must be a program and its arguments, with every quotation closed")
    return value


LogLevel = Literal["TRACE", "DEBUG", "INFO", "SUCCESS", "WARNING", "ERROR", "CRITICAL"]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Url = Annotated[str, AfterValidator(check_http_url)]
FilePath = Annotated[Path, AfterValidator(_expand_home)]
Texts = Annotated[tuple[str, ...], BeforeValidator(comma_separated(str))]


class Settings(BaseModel):
    """The settings; `load_settings` reads them from `TOOLWEAVE_<FIELD>` variables.

    `Settings(...)` itself uses arguments and defaults only and never reads the environment. Neither `repr` nor
    validation errors show secrets (D-3).
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, validate_default=True, hide_input_in_errors=True
    )

    model: str | None = None
    openrouter_api_key: SecretStr | None = Field(default=None, validation_alias="OPENROUTER_API_KEY")
    gemini_api_key: SecretStr | None = Field(default=None, validation_alias="GEMINI_API_KEY")
    openai_api_key: SecretStr | None = Field(default=None, validation_alias="OPENAI_API_KEY")
    openai_base_url: Url | None = Field(default=None, validation_alias="OPENAI_BASE_URL", repr=False)
    model_timeout_s: Seconds = 60.0

    data_dir: Annotated[FilePath, AfterValidator(_check_data_dir)] = Path(".toolweave")
    # One PostgreSQL database for everything that the data folder's databases hold, todos and registered tools as well
    # unless their own settings say otherwise; a direct URL beside it if the first one leads to PgBouncer.
    database_url: Annotated[str, AfterValidator(_check_postgresql_url)] | None = Field(default=None, repr=False)
    database_direct_url: Annotated[str, AfterValidator(_check_postgresql_url)] | None = Field(default=None, repr=False)
    database_pool_size: int = Field(default=10, ge=2, le=1_000)
    # A process without a heartbeat for this long counts as dead, and its runs continue elsewhere.
    worker_lease_s: float = Field(default=30.0, ge=2, le=3_600, allow_inf_nan=False)
    drain_timeout_s: float = Field(default=30.0, ge=0, le=3_600, allow_inf_nan=False)
    event_retention_h: float = Field(default=168.0, gt=0, allow_inf_nan=False)

    mcp_config: FilePath | None = None
    todo_command: Annotated[str, AfterValidator(_check_command_line)] | None = Field(default=None, repr=False)
    todo_env: Annotated[dict[str, str], BeforeValidator(_parse_string_object)] = Field(default_factory=dict, repr=False)
    todo_timeout_s: Seconds | None = None
    todo_database_url: str | None = Field(default=None, repr=False)

    tools_database_url: str | None = Field(default=None, repr=False)
    tool_env: Annotated[ToolVariables, BeforeValidator(parse_tool_variables)] = ToolVariables()

    query_database_url: str | None = Field(default=None, repr=False)
    query_tables: str = Field(default="todos", repr=False)
    query_max_rows: int = Field(default=1_000, ge=1, le=100_000)
    query_timeout_s: Seconds = 3.0
    query_role: str | None = Field(default=None, repr=False)
    query_forbidden: str | None = Field(default=None, repr=False)
    query_guardrail: str | None = Field(default=None, repr=False)
    job_endpoints: Annotated[tuple[JobEndpoint, ...], BeforeValidator(parse_job_endpoints)] = Field(
        default=(), repr=False
    )
    job_headers: Annotated[tuple[JobHeaders, ...], BeforeValidator(parse_job_headers)] = Field(default=(), repr=False)
    # Below the timeout of every tool, so that the error names the job's endpoint.
    job_timeout_s: float = Field(default=3.5, gt=0, le=3.8, allow_inf_nan=False)
    file_roots: Texts = Field(default=(), repr=False)
    file_ignore: Texts = Field(default=(), repr=False)
    file_max_bytes: int = Field(default=1_000_000, ge=1, le=20_000_000)
    core_token: SecretStr | None = None
    core_jwks_url: Url | None = Field(default=None, repr=False)
    core_jwt_public_key: FilePath | None = Field(default=None, repr=False)
    core_jwt_issuer: str | None = Field(default=None, repr=False)
    core_jwt_audience: str | None = Field(default=None, repr=False)

    config_path: FilePath | None = Field(default=None, validation_alias="CONFIG_PATH")
    mcp_config_path: FilePath | None = Field(default=None, validation_alias="MCP_CONFIG_PATH")

    token_store: Literal["auto", "keyring", "file"] = "auto"  # noqa: S105 - the name of a place
    token_key: SecretStr | None = None

    host: str = Field(default="127.0.0.1", min_length=1)
    port: int = Field(default=2024, ge=0, le=65535)
    cors_origins: Annotated[tuple[str, ...], BeforeValidator(comma_separated(_check_origin))] = ()
    allow_insecure_bind: bool = False
    api_url: Annotated[Url, BeforeValidator(with_scheme)] | None = Field(default=None, repr=False)

    outbound_allow: Annotated[tuple[AllowedTarget, ...], BeforeValidator(allowed_targets)] = ()
    webhook_secret: Annotated[SecretStr, AfterValidator(_check_webhook_secret)] | None = None

    log_level: Annotated[LogLevel, BeforeValidator(lambda value: str(value).upper())] = "INFO"
    log_format: Literal["auto", "human", "json"] = "auto"
    # Traces are sent if one of the two is set; the OpenTelemetry SDK reads the other OTEL_ variables itself.
    otlp_endpoint: Url | None = Field(default=None, validation_alias="OTEL_EXPORTER_OTLP_ENDPOINT", repr=False)
    otlp_traces_endpoint: Url | None = Field(
        default=None, validation_alias="OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", repr=False
    )
    otel_content: bool = False
    mcp_log: Literal["full", "ids", "off"] = "full"

    max_iterations: int = Field(default=10, ge=1)
    on_iteration_limit: Literal["end", "error", "summarize"] = "end"
    max_concurrent_runs: int = Field(default=100, ge=1)
    max_tools: int = Field(default=64, ge=1, le=128)

    @model_validator(mode="before")
    @classmethod
    def _share_database(cls, values: Any) -> Any:
        """Store todos and registered tools in the one database, too, unless they have a database of their own."""
        if isinstance(values, dict) and values.get("database_url"):
            shared = dict.fromkeys(("todo_database_url", "tools_database_url"), values["database_url"])
            return shared | {name: value for name, value in values.items() if value is not None}
        return values

    @property
    def traces_url(self) -> str | None:
        """Return the URL that receives traces (OpenTelemetry protocol over HTTP); None sends none."""
        if self.otlp_traces_endpoint is not None or self.otlp_endpoint is None:
            return self.otlp_traces_endpoint
        return f"{self.otlp_endpoint.rstrip('/')}/v1/traces"


def load_settings(environ: Mapping[str, str] = os.environ, **overrides: Any) -> Settings:
    """Read the settings from `environ` (default: the process environment); `overrides` that are not None win.

    An empty variable counts as unset.

    Raises:
        ConfigError: a value has the wrong type or range; names every such variable, without values.
    """
    provided = {name: value for name, value in overrides.items() if value is not None}
    found = {name.upper(): value for name, value in environ.items() if value.strip()}
    names = {field: variable_name(field) for field in Settings.model_fields}
    # The keys of model providers may also have our prefix.
    values = {
        field: found[name] for field in names for name in (f"{PREFIX}{field.upper()}", names[field]) if name in found
    }
    try:
        return Settings(**(values | provided))
    except ValidationError as error:
        labels = names | {name: name for name in provided}
        raise ConfigError(
            " ".join(f"{labels[str(location[0])]} {expected}." for location, expected in problems_in(error)),
            source="settings",
            fix="Correct the value, or unset it to use the default.",
        ) from None


def export_settings(settings: Settings, fields: Iterable[str]) -> None:
    """Set the variables of `fields` in the process environment, for code that loads the settings later."""
    os.environ.update({variable_name(field): str(getattr(settings, field)) for field in fields})


def copy_environment() -> dict[str, str]:
    """Return a copy of the process environment, for starting another process with it."""
    return dict(os.environ)


def variable_name(field: str) -> str:
    """Return the environment variable that sets `field`."""
    alias = Settings.model_fields[field].validation_alias if field in Settings.model_fields else None
    return alias if isinstance(alias, str) else f"{PREFIX}{field.upper()}"


def unknown_variables(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the unknown `TOOLWEAVE_` variables, each with the nearest known name, without values."""
    known = [variable_name(field) for field in Settings.model_fields]
    return tuple(
        _with_suggestion(name, known)
        for name in sorted(environ)
        if name.upper().startswith(PREFIX) and name.upper() not in (*known, *_ONLY_IN_CONFIGURATION_FILES)
    )


def _with_suggestion(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name.upper(), known, n=1, cutoff=0.75)
    return f"{name} (did you mean {nearest[0]}?)" if nearest else name


_TABLES_SETTING = "TOOLWEAVE_QUERY_TABLES"
_TABLES_FIX = 'Write tables as in: todos, customers(id, name), sales.orders, "Order items".'
_NAME = r'(?:"(?:[^"]|"")+"|[^\s",.()]+)'
_COLUMNS = rf"\(\s*(?P<columns>{_NAME}(?:\s*,\s*{_NAME})*)\s*,?\s*\)"
_TABLE = re.compile(rf"\s*(?:(?P<schema>{_NAME})\.)?(?P<name>{_NAME})\s*(?:{_COLUMNS})?\s*(?:,\s*|$)")
_MAX_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class AllowedTable:
    """A table that may be read; `schema` None means the database's default schema, `columns` None all columns."""

    name: str
    schema: str | None = None
    columns: tuple[str, ...] | None = None

    @property
    def label(self) -> str:
        """Return the name that callers use for the table."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


def parse_query_tables(text: str) -> tuple[AllowedTable, ...]:
    """Parse a list of `table` or `schema.table`, optionally with `(column, …)`; special names are in double quotes.

    Raises:
        ConfigError: the list is invalid, or repeats a table or a column; quotes the position.
    """
    tables: dict[str, AllowedTable] = {}
    position = 0
    while position < len(text) and text[position:].strip(" \t\r\n,"):
        found = _TABLE.match(text, position)
        if found is None:
            raise _tables_error(f"the list is invalid from {text[position:].strip()[:_MAX_SHOWN_CHARS]!r} on.")
        table = _parse_table(found)
        if table.label in tables:
            raise _tables_error(f"it names the table {table.label} twice.")
        tables[table.label] = table
        position = found.end()
    return tuple(tables.values())


def _parse_table(found: re.Match[str]) -> AllowedTable:
    name, schema = _unquote(found["name"]), found["schema"]
    columns = tuple(_unquote(part) for part in re.findall(_NAME, found["columns"])) if found["columns"] else None
    if columns and len(set(columns)) < len(columns):
        raise _tables_error(f"it names a column of {name} twice.")
    return AllowedTable(name, _unquote(schema) if schema else None, columns)


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _tables_error(problem: str) -> ConfigError:
    return ConfigError(problem, source=_TABLES_SETTING, fix=_TABLES_FIX)
