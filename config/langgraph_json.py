"""Read langgraph.json: the graphs to serve, the environment they want and the application beside them (S-02)."""

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from toolweave.config.auth_section import AuthEntry
from toolweave.config.http_section import HttpEntry
from toolweave.config.ignored_keys import ignored_keys
from toolweave.config.jsonc import JsoncDocument, read_jsonc
from toolweave.config.problems import sentences
from toolweave.config.sections import ImportTarget, unread_members
from toolweave.config.storage_sections import CheckpointerEntry, StoreEntry
from toolweave.config.webhooks_section import WebhooksEntry
from toolweave.errors import ConfigError

_SECTIONS: dict[str, type[BaseModel]] = {
    "http": HttpEntry,
    "store": StoreEntry,
    "checkpointer": CheckpointerEntry,
    "webhooks": WebhooksEntry,
    "auth": AuthEntry,
}
_READ_KEYS = ("graphs", "dependencies", "env", *_SECTIONS)
# For building images; a server has no use for them.
_BUILD_KEYS = (
    "$schema",
    "python_version",
    "node_version",
    "api_version",
    "base_image",
    "image_distro",
    "pip_config_file",
    "pip_installer",
    "source",
    "dockerfile_lines",
    "keep_pkg_tools",
    "_INTERNAL_docker_tag",
)
# Serving without it would expose what the file's author meant to protect.
_REFUSED_KEYS = ("encryption",)
# Known to the official tools, and of no effect here: (path, what happens instead).
_WITHOUT_EFFECT: tuple[tuple[tuple[str, ...], str], ...] = (
    (("priority",), "runs start in the order in which they come"),
    (("ui",), "user interface components are not served"),
    (("checkpointer", "path"), "checkpoints are kept in the data folder"),
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
    """A loaded langgraph.json; targets, folders and the env file are absolute. `repr` shows no variable's value."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True)

    graphs: dict[str, GraphEntry] = Field(min_length=1)
    dependencies: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    env_file: Path | None = None
    http: HttpEntry = HttpEntry()
    store: StoreEntry = StoreEntry()
    checkpointer: CheckpointerEntry = CheckpointerEntry()
    webhooks: WebhooksEntry = WebhooksEntry()
    auth: AuthEntry | None = None
    path: Path
    warnings: tuple[str, ...] = ()

    def apply_env(self, environ: MutableMapping[str, str] | None = None) -> None:
        """Set the file's variables in `environ` (default: the process's) where they are not set."""
        target = os.environ if environ is None else environ
        for name, value in self.env.items():
            target.setdefault(name, value)


def load_langgraph_json(path: Path) -> LangGraphJson:
    """Read a langgraph.json; relative paths in it start at its folder, an absent `.env` is no error.

    Raises:
        ConfigError: not readable, not JSON, of the wrong form, or asking for what we cannot protect; names file, line
            and fix.
    """
    document = read_jsonc(path)
    if not isinstance(document.value, dict):
        raise ConfigError("must be an object.", source=document.place(()), fix='Write {"graphs": {…}}.')
    for key in _REFUSED_KEYS:
        if document.value.get(key):
            fix = f"Remove {key!r} to serve without it."
            raise ConfigError(f"{key!r} is not supported by this version.", source=document.place((key,)), fix=fix)
    folder = path.absolute().parent
    env, warnings = _variables(document, folder)
    env_file = document.value.get("env")
    known = {key: item for key, item in document.value.items() if key in _READ_KEYS and item is not None}
    try:
        written = LangGraphJson.model_validate(
            {
                **known,
                "env": env,
                "env_file": folder / env_file if isinstance(env_file, str) else None,
                "path": path.absolute(),
                "warnings": (*_ignored(document), *warnings),
            }
        )
    except ValidationError as error:
        location, expected = sentences(error)[0]
        shown = ".".join(str(step) for step in location)
        raise ConfigError(f"{shown} {expected}.", source=document.place(location), fix="Correct the entry.") from None
    return _with_absolute_paths(written, folder)


def _variables(document: JsoncDocument, folder: Path) -> tuple[Any, tuple[str, ...]]:
    written = document.value.get("env")
    if not isinstance(written, str):
        return written or {}, ()
    file = folder / written
    if not file.is_file():
        if file.name == ".env":
            return {}, ()
        return {}, (f"{document.place(('env',))}: the env file {written!r} does not exist",)
    try:
        values = dotenv_values(file, encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigError("cannot be read as UTF-8 text.", source=str(file), fix="Correct the file.") from None
    return {name: value for name, value in values.items() if value is not None}, ()


def _ignored(document: JsoncDocument) -> list[str]:
    warnings = ignored_keys(document, (), (*_READ_KEYS, *_BUILD_KEYS, *(path[0] for path, _ in _WITHOUT_EFFECT)))
    for path, instead in _WITHOUT_EFFECT:
        if path in document.lines:
            warnings.append(f"{document.place(path)}: {'.'.join(path)!r} has no effect: {instead}")
    for name, section in _SECTIONS.items():
        known = [path[1] for path, _ in _WITHOUT_EFFECT if path[0] == name]
        warnings += unread_members(document, (name,), section, owner=name, known=known)
    graphs = document.value.get("graphs")
    for name in graphs if isinstance(graphs, dict) else ():
        warnings += ignored_keys(document, ("graphs", name), ("path", "description"), owner=f"graph {name!r}: ")
    return warnings


def _with_absolute_paths(config: LangGraphJson, folder: Path) -> LangGraphJson:
    graphs = {
        name: entry.model_copy(update={"target": _absolute_target(entry.target, folder)})
        for name, entry in config.graphs.items()
    }
    changed: dict[str, Any] = {"graphs": graphs}
    if config.http.app:
        changed["http"] = config.http.model_copy(update={"app": _absolute_target(config.http.app, folder)})
    if config.auth:
        changed["auth"] = config.auth.model_copy(update={"path": _absolute_target(config.auth.path, folder)})
    if index := config.store.index:
        # `provider:family/model:tag` is no path.
        embed = _absolute_target(index.embed, folder) if ".py:" in index.embed else index.embed
        index = index.model_copy(update={"embed": embed})
        changed["store"] = config.store.model_copy(update={"index": index})
    changed["dependencies"] = tuple(
        str((folder / item).resolve()) if item.startswith((".", "/")) else item for item in config.dependencies
    )
    return config.model_copy(update=changed)


def _absolute_target(target: str, folder: Path) -> str:
    file_or_module, _, attribute = target.rpartition(":")
    if "/" in file_or_module or file_or_module.endswith(".py"):
        return f"{os.path.normpath(folder / file_or_module)}:{attribute}"
    return target
