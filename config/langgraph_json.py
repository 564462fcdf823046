"""Read langgraph.json: the graphs to serve, their environment, and the custom application (S-02).

Sections: `http` (application, disabled routes, origins), `store` and `checkpointer` (semantic search, times to live),
`webhooks` (allowed targets, headers; W-09), `auth` (authentication) and `priority` (order of waiting runs; S-08).
"""

import os
import re
from collections.abc import Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from dotenv import dotenv_values
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from toolweave.config.documents import ConfigDocument, problems_in, unknown_fields, unknown_keys
from toolweave.config.jsonc import read_jsonc
from toolweave.errors import ConfigError

Minutes = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NON_PYTHON_SUFFIXES = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx")


# The validation context is the folder of langgraph.json, against which relative paths resolve; without it they stay.
def _check_import_target(value: str, info: ValidationInfo) -> str:
    file_or_module, _, attribute = value.rpartition(":")
    if not file_or_module or not attribute.isidentifier():
        raise ValueError("must be of the form ./file.py:name or package.module:name")
    if file_or_module.endswith(_NON_PYTHON_SUFFIXES):
        raise ValueError("must name Python code: graphs in other languages cannot be served")
    return _absolute_target(value, info)


def _absolute_target(target: str, info: ValidationInfo) -> str:
    file_or_module, _, attribute = target.rpartition(":")
    if info.context and ("/" in file_or_module or file_or_module.endswith(".py")):
        return f"{os.path.normpath(info.context / file_or_module)}:{attribute}"
    return target


def _check_embedding(value: str, info: ValidationInfo) -> str:
    # `provider:family/model:tag` is not a path.
    return _absolute_target(value, info) if ".py:" in value else value


def _resolve_dependency(value: str, info: ValidationInfo) -> str:
    return str((info.context / value).resolve()) if info.context and value.startswith((".", "/")) else value


# `package.module:name` or `path/to/file.py:name`.
ImportTarget = Annotated[str, AfterValidator(_check_import_target)]


class ConfigSection(BaseModel):
    """A section of langgraph.json; a null member has its default."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {key: item for key, item in value.items() if item is not None}


class AuthCache(ConfigSection):
    """Cache of authenticated callers: one entry per combination of the headers in `cache_keys`."""

    cache_keys: tuple[str, ...] = Field(min_length=1)
    ttl_seconds: float = Field(default=60, gt=0, allow_inf_nan=False)
    max_size: int = Field(default=1000, ge=1)


class AuthOpenApi(ConfigSection):
    """Authentication in openapi.json; each member has the form of the OpenAPI specification."""

    securitySchemes: dict[str, dict[str, Any]] = Field(default_factory=dict)  # noqa: N815 - the file's spelling
    security: tuple[dict[str, list[str]], ...] = ()
    paths: dict[str, dict[str, list[dict[str, list[str]]]]] = Field(default_factory=dict)


class AuthEntry(ConfigSection):
    """The `auth` section: `path` is the target of a `langgraph_sdk.Auth`."""

    path: ImportTarget
    disable_studio_auth: bool = False
    openapi: AuthOpenApi | None = None
    cache: AuthCache | None = None


class PriorityEntry(ConfigSection):
    """The `priority` section: `path` is the target of a `langgraph_sdk.Priority` (S-08)."""

    path: ImportTarget


def _check_regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"must be a regular expression ({error.msg})") from None
    return value


def _check_mount_prefix(value: str) -> str:
    value = value.rstrip("/")
    if value and (not value.startswith("/") or any(mark in value for mark in "?#{} ")):
        raise ValueError("must be a path that begins with /, such as /api")
    return value


class CorsRules(ConfigSection):
    """CORS rules for origins in addition to those that are always allowed."""

    allow_origins: tuple[str, ...] = ()
    allow_origin_regex: Annotated[str, AfterValidator(_check_regex)] | None = None
    allow_methods: tuple[str, ...] | None = None
    allow_headers: tuple[str, ...] | None = None
    allow_credentials: bool = False
    expose_headers: tuple[str, ...] = ()
    max_age: int = Field(default=600, ge=0)


class HeaderRules(ConfigSection):
    """Patterns with `*` that select request headers; `excludes` wins."""

    includes: tuple[str, ...] | None = Field(default=None, validation_alias=AliasChoices("includes", "include"))
    excludes: tuple[str, ...] | None = Field(default=None, validation_alias=AliasChoices("excludes", "exclude"))


class HttpEntry(ConfigSection):
    """The `http` section: `app` is the target of a user's own ASGI application, `mount_prefix` is "" or "/path"."""

    app: ImportTarget | None = None
    disable_assistants: bool = False
    disable_threads: bool = False
    disable_runs: bool = False
    disable_store: bool = False
    disable_mcp: bool = False
    disable_a2a: bool = False
    disable_meta: bool = False
    disable_ui: bool = False
    disable_webhooks: bool = False
    cors: CorsRules | None = None
    configurable_headers: HeaderRules | None = None
    logging_headers: HeaderRules | None = None
    middleware_order: Literal["auth_first", "middleware_first"] = "middleware_first"
    enable_custom_route_auth: bool = False
    mount_prefix: Annotated[str, AfterValidator(_check_mount_prefix)] = ""


class StoreIndexEntry(ConfigSection):
    """Semantic search in the store.

    `embed` is `provider:model` or `path/to/file.py:name` (absolute after loading); `dims` is the length of its vectors;
    `fields` are the paths in a value that are embedded, None for the whole value.
    """

    embed: Annotated[str, AfterValidator(_check_embedding)] = Field(min_length=1)
    dims: int = Field(gt=0)
    fields: tuple[str, ...] | None = None


class StoreTtl(ConfigSection):
    """Time to live of store items, None: never expire if an item has none; no interval: the server's default."""

    default_ttl: Minutes | None = None
    refresh_on_read: bool = True
    sweep_interval_minutes: Minutes | None = None


class StoreEntry(ConfigSection):
    """The `store` section."""

    index: StoreIndexEntry | None = None
    ttl: StoreTtl | None = None


class CheckpointerTtl(ConfigSection):
    """Time to live of threads after their last change; a sweep handles at most `sweep_limit` threads."""

    strategy: Literal["delete", "keep_latest"] = "delete"
    default_ttl: Minutes | None = None
    sweep_interval_minutes: Minutes | None = None
    sweep_limit: int = Field(default=1000, ge=1)


class CheckpointerEntry(ConfigSection):
    """The `checkpointer` section."""

    ttl: CheckpointerTtl | None = None


_ENV_TEMPLATE = re.compile(r"\$\{\{\s*env\.(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*\}\}")


class WebhookUrlRules(ConfigSection):
    """Rules for webhook URLs.

    `allowed_domains` has hosts and `*.domain` patterns (subdomains only), `allowed_ports` ports; an empty list allows
    every public one. `disable_loopback` rejects bare paths, which go to the application itself.
    """

    require_https: bool = True
    allowed_domains: tuple[str, ...] = ()
    allowed_ports: tuple[int, ...] = ()
    max_url_length: int = Field(default=2048, gt=0)
    disable_loopback: bool = True


class WebhooksEntry(ConfigSection):
    """The `webhooks` section; `headers` may contain `${{ env.NAME }}` for names that start with `env_prefix`."""

    url: WebhookUrlRules = WebhookUrlRules()
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    env_prefix: str = Field(default="LG_WEBHOOK_", min_length=1)

    def resolved_headers(self, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the headers with variables replaced from `environ` (default: the process environment).

        Raises:
            ConfigError: a variable is not set or lacks the prefix; names header and variable, without values.
        """
        return {
            header: _ENV_TEMPLATE.sub(partial(self._variable_value, header, environ), text)
            for header, text in self.headers.items()
        }

    def _variable_value(self, header: str, environ: Mapping[str, str], reference: re.Match[str]) -> str:
        name = reference["name"]
        if not name.startswith(self.env_prefix):
            fix = f"Rename the variable, or set webhooks.env_prefix (now {self.env_prefix!r})."
            raise ConfigError(f"webhooks.headers.{header} may not read {name!r}.", source="langgraph.json", fix=fix)
        if name not in environ:
            raise ConfigError(
                f"webhooks.headers.{header} needs {name!r}, which is not set.",
                source="langgraph.json",
                fix="Set the environment variable.",
            )
        return environ[name]


_SECTIONS: dict[str, type[BaseModel]] = {
    "http": HttpEntry,
    "store": StoreEntry,
    "checkpointer": CheckpointerEntry,
    "webhooks": WebhooksEntry,
    "auth": AuthEntry,
    "priority": PriorityEntry,
}
_READ_KEYS = ("graphs", "dependencies", "env", *_SECTIONS)
# Only for building images.
_BUILD_KEYS = (
    *("$schema", "python_version", "node_version", "api_version", "base_image", "image_distro"),
    *("pip_config_file", "pip_installer", "source", "dockerfile_lines", "keep_pkg_tools", "_INTERNAL_docker_tag"),
)
# Keys of the official tools without effect here: (path, what happens instead).
_INEFFECTIVE_KEYS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("ui",), "user interface components are not served"),
    (("checkpointer", "path"), "checkpoints are stored in the data folder"),
    (("checkpointer", "serde"), "values in checkpoints are read by LangGraph's own rules"),
)


class GraphEntry(BaseModel):
    """One graph: `target` is `module:attr` or `/absolute/file.py:attr`."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    target: ImportTarget = Field(alias="path")
    description: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, str) else value


class LangGraphJson(BaseModel):
    """A loaded langgraph.json with absolute targets, folders and env file; `repr` hides the values of variables."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True)

    graphs: dict[str, GraphEntry] = Field(min_length=1)
    dependencies: tuple[Annotated[str, AfterValidator(_resolve_dependency)], ...] = ()
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    env_file: Path | None = None
    http: HttpEntry = HttpEntry()
    store: StoreEntry = StoreEntry()
    checkpointer: CheckpointerEntry = CheckpointerEntry()
    webhooks: WebhooksEntry = WebhooksEntry()
    auth: AuthEntry | None = None
    priority: PriorityEntry | None = None
    path: Path
    warnings: tuple[str, ...] = ()

    def apply_env(self, environ: MutableMapping[str, str] | None = None) -> None:
        """Set the file's variables that are not yet set in `environ` (default: the process environment)."""
        target = os.environ if environ is None else environ
        for name, value in self.env.items():
            target.setdefault(name, value)


def load_langgraph_json(path: Path) -> LangGraphJson:
    """Read a langgraph.json; relative paths start at its folder, and an absent `.env` is allowed.

    Raises:
        ConfigError: the file is unreadable, not JSON, invalid, or requires encryption; names file, line and fix.
    """
    document = read_jsonc(path)
    if not isinstance(document.value, dict):
        raise ConfigError("must be an object.", source=document.locate(()), fix='Write {"graphs": {…}}.')
    if document.value.get("encryption"):
        # Serving without it would expose data that the operator wants encrypted.
        raise ConfigError(
            "'encryption' is not supported by this version.",
            source=document.locate(("encryption",)),
            fix="Remove 'encryption' to serve without it.",
        )
    folder = path.absolute().parent
    env, warnings = _read_env(document, folder)
    env_file = document.value.get("env")
    known = {key: item for key, item in document.value.items() if key in _READ_KEYS and item is not None}
    try:
        return LangGraphJson.model_validate(
            {
                **known,
                "env": env,
                "env_file": folder / env_file if isinstance(env_file, str) else None,
                "path": path.absolute(),
                "warnings": (*_ignored_warnings(document), *warnings),
            },
            context=folder,
        )
    except ValidationError as error:
        location, expected = problems_in(error)[0]
        field = ".".join(str(step) for step in location)
        raise ConfigError(f"{field} {expected}.", source=document.locate(location), fix="Correct the entry.") from None


def _read_env(document: ConfigDocument, folder: Path) -> tuple[Any, tuple[str, ...]]:
    written = document.value.get("env")
    if not isinstance(written, str):
        return written or {}, ()
    file = folder / written
    if not file.is_file():
        if file.name == ".env":
            return {}, ()
        return {}, (f"{document.locate(('env',))}: the env file {written!r} does not exist",)
    return read_dotenv(file), ()


def read_dotenv(file: Path) -> dict[str, str]:
    """Read the variables of a .env file; return none if the file is absent.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        values = dotenv_values(file, encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigError("cannot be read as UTF-8 text.", source=str(file), fix="Correct the file.") from None
    return {name: value for name, value in values.items() if value is not None}


def _ignored_warnings(document: ConfigDocument) -> list[str]:
    warnings = unknown_keys(document, (), (*_READ_KEYS, *_BUILD_KEYS, *(path[0] for path, _ in _INEFFECTIVE_KEYS)))
    for path, instead in _INEFFECTIVE_KEYS:
        if path in document.lines:
            warnings.append(f"{document.locate(path)}: {'.'.join(path)!r} has no effect: {instead}")
    for name, section in _SECTIONS.items():
        known = [path[1] for path, _ in _INEFFECTIVE_KEYS if path[0] == name]
        warnings += unknown_fields(document, (), section, inside=(name,), known=known)
    graphs = document.value.get("graphs")
    for name in graphs if isinstance(graphs, dict) else ():
        warnings += unknown_keys(document, ("graphs", name), ("path", "description"), owner=f"graph {name!r}: ")
    return warnings
