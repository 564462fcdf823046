"""Make ToolConfigs of an OpenAPI document: `POST /tools/import/openapi` (W-01)."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import translate
from typing import Any

from toolweave.errors import DocumentRefused
from toolweave.servers.registry.openapi.document import read_document
from toolweave.servers.registry.openapi.operations import Conversion, Site
from toolweave.servers.registry.openapi.schemas import STEPS_IN_ALL, OpenApiDocument, OutOfSteps, UnusablePart, shown
from toolweave.tool_config import RESERVED_IDS, ApiAuth, Method, ToolConfig

MOST_OPERATIONS = 2_000
MOST_REPORTED = 2_000
LONGEST_REASON = 500
LONGEST_ID = 64
LONGEST_NAME = 2_000

_METHODS: dict[str, Method] = {name.lower(): name for name in ("GET", "PUT", "POST", "DELETE", "HEAD", "PATCH")}
_OTHER_METHODS = ("options", "trace", "query")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class ImportOptions:
    """What to import and how.

    Args:
        base_url: where the API is, whatever servers the document names.
        document_url: where the document is from: relative server URLs are relative to it.
        prefix: what every tool_id begins with.
        tags: only operations with one of these tags; all when empty.
        operations: only operations whose id, or "METHOD /path", one of these globs matches; all when empty.
        auth: how every tool shows who asks, whatever security the document asks for.
    """

    base_url: str | None = None
    document_url: str | None = None
    prefix: str = ""
    tags: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    auth: ApiAuth | None = None


@dataclass(frozen=True)
class Skipped:
    """An operation ("GET /pets/{id}") that became no tool, and why."""

    operation: str
    reason: str


@dataclass(frozen=True)
class Imported:
    """What an import comes to; `tools` are not stored yet, `warnings` begin with the operation they are about."""

    tools: list[ToolConfig]
    skipped: list[Skipped]
    warnings: list[str]


def import_openapi(document: bytes | str | Mapping[str, Any], options: ImportOptions | None = None) -> Imported:
    """Make a ToolConfig of each operation that can be one; no operation takes another one down.

    Up to some seconds of computing for the largest documents: not for an event loop. Nothing is fetched.

    Raises:
        DocumentRefused: the document cannot be read at all, or reading it takes more than `STEPS_IN_ALL` steps.
    """
    return _Import(OpenApiDocument(read_document(document)), options or ImportOptions()).run()


class _Import:
    def __init__(self, document: OpenApiDocument, options: ImportOptions) -> None:
        self._document = document
        self._options = options
        self._conversion = Conversion(document, options.base_url, options.document_url, options.auth)
        self._tools: dict[str, ToolConfig] = {}
        self._skipped: list[Skipped] = []
        self._warnings: dict[str, None] = {}
        self._numbers: dict[str, int] = {}
        self._globs = [re.compile(translate(glob)) for glob in options.operations]
        self._glob_length = sum(map(len, options.operations))
        self._reading = "its paths"

    def run(self) -> Imported:
        try:
            return self._run()
        except OutOfSteps:
            raise DocumentRefused(
                f"The import takes more than {STEPS_IN_ALL:,} steps, so far up to {self._reading}: the document's"
                " references make too much of it. Import fewer operations at once, chosen by `operations` or `tags`,"
                " or let them refer to less; nothing was stored."
            ) from None

    def _run(self) -> Imported:
        left_out = 0
        for seen, site in enumerate(filter(self._wanted, self._sites())):
            if seen >= MOST_OPERATIONS:
                left_out += 1
            else:
                self._import(site)
        if left_out:
            self._warn(
                f"{left_out} operations after the first {MOST_OPERATIONS} are left out: choose by operations or tags"
            )
        if not self._tools and not self._skipped:
            self._warn("the document has no operation" + (" that was asked for" if self._is_choosy else ""))
        return Imported(list(self._tools.values()), self._skipped, list(self._warnings))

    @property
    def _is_choosy(self) -> bool:
        return bool(self._options.tags or self._options.operations)

    def _sites(self) -> Iterator[Site]:
        for path, entry in self._document.content.get("paths", {}).items():
            if path.startswith("x-"):
                continue
            try:
                path_item = self._document.follow(entry)
                self._document.look_through(path_item)
            except UnusablePart as reason:
                self._skip(shown(path), str(reason))
                continue
            for name, raw in path_item.items():
                if name in _METHODS:
                    yield Site(_METHODS[name], path, path_item, raw if isinstance(raw, dict) else {})
                elif name in _OTHER_METHODS:
                    self._skip(f"{name.upper()} {shown(path)}", f"tools do not call {name.upper()}")

    def _wanted(self, site: Site) -> bool:
        return (not self._globs or self._has_chosen_name(site)) and (
            not self._options.tags or self._has_chosen_tag(site)
        )

    def _has_chosen_name(self, site: Site) -> bool:
        own_id = site.raw.get("operationId", "")
        names = [f"{site.method} {site.path}"[:LONGEST_NAME], own_id[:LONGEST_NAME] if isinstance(own_id, str) else ""]
        self._document.steps.take(len(self._globs) + self._glob_length * sum(map(len, names)) // 1_000)
        return any(glob.match(name) for glob in self._globs for name in names)

    def _has_chosen_tag(self, site: Site) -> bool:
        tags = site.raw.get("tags")
        if not isinstance(tags, list):
            return False
        self._document.look_through(tags)
        return any(isinstance(tag, str) and tag in self._options.tags for tag in tags)

    def _import(self, site: Site) -> None:
        warnings: list[str] = []
        self._reading = site.label
        try:
            tool = self._conversion.tool(self._free_id(site), site, warnings.append)
        except UnusablePart as reason:
            self._skip(site.label, str(reason))
            return
        self._tools[tool.tool_id] = tool
        for warning in warnings:
            self._warn(f"{site.label}: {warning}")

    def _free_id(self, site: Site) -> str:
        wanted = site.raw.get("operationId")
        slug = _slug(wanted) if isinstance(wanted, str) else ""
        slug = slug or _slug(f"{site.method.lower()} {site.path}").rstrip("_-")
        if f"{self._options.prefix}{slug}".lower() in RESERVED_IDS:
            slug = f"{slug}_{site.method.lower()}"
        free = first = f"{self._options.prefix}{slug}"[:LONGEST_ID]
        number = self._numbers.get(first, 1)
        while free in self._tools:
            number += 1
            free = f"{self._options.prefix}{slug}"[: LONGEST_ID - len(str(number)) - 1] + f"_{number}"
        self._numbers[first] = max(1, number - 1)
        return free

    def _skip(self, operation: str, reason: str) -> None:
        if len(self._skipped) < MOST_REPORTED:
            self._skipped.append(Skipped(operation, reason[:LONGEST_REASON]))
        else:
            self._warn(f"more than {MOST_REPORTED} operations are left out; not all of them are named")

    def _warn(self, warning: str) -> None:
        if len(self._warnings) < MOST_REPORTED:
            self._warnings[warning[:LONGEST_REASON]] = None


def _slug(text: str) -> str:
    return _NOT_IN_IDS.sub("_", text[:LONGEST_NAME]).lstrip("_-")[:LONGEST_ID]
