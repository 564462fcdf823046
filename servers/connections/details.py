"""Describe one server in full for its operator: what it is, what it offers, how its calls went (T-06)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from toolweave.config.mcp import McpServerConfig
from toolweave.config.mcp_entry import Transport
from toolweave.servers.connections.connection import ServerConnection
from toolweave.servers.connections.observation import Outcome, ServerFigures, ToolFigures
from toolweave.servers.connections.redaction import Redaction
from toolweave.servers.connections.registry import Offer
from toolweave.servers.connections.status import ServerHealth
from toolweave.servers.connections.tool import McpTool

SHOWN_ERRORS = 10
LONGEST_DESCRIPTION = 2_000


class ServerSummary(ServerHealth):
    """One server in the list of all."""

    name: str
    transport: Transport
    enabled: bool


class ToolDetails(TypedDict):
    """One offered tool: `name` is shown to models, `own_name` is the server's."""

    name: str
    own_name: str
    description: str | None
    input_schema: dict[str, Any]
    annotations: dict[str, Any]
    requires_approval: bool
    calls: int
    failures: int


class ServerError(TypedDict):
    """Something that went wrong; `outcome` is "connection" where no call was concerned."""

    time: str
    tool: str | None
    outcome: Outcome | Literal["connection"]
    reason: str


class Filters(TypedDict):
    """Which of a server's tools are offered: globs on its own names."""

    include: list[str]
    exclude: list[str]


class BreakerDetails(TypedDict):
    """After how many failed calls in a row the breaker opens, and for how long."""

    failures: int
    recovery_s: float


class ServerDetails(ServerSummary):
    """All about one server, without secrets; `offers` has its tools as they were listed last, `errors` newest first."""

    target: str
    prefix: str
    filters: Filters
    timeout_s: float
    max_concurrency: int | None
    breaker_rules: BreakerDetails
    calls: int
    failures: int
    retries: int
    in_flight: int
    offers: list[ToolDetails]
    errors: list[ServerError]


Tools: TypeAlias = Sequence[McpTool]


def summary_of(config: McpServerConfig, health: ServerHealth) -> ServerSummary:
    """Say which server it is and how it is."""
    return ServerSummary(name=config.name, transport=config.transport, enabled=config.enabled, **health)


def details_of(
    connection: ServerConnection, health: ServerHealth, offer: Offer, tools: Tools, figures: ServerFigures
) -> ServerDetails:
    """Say everything about a server that its operator may want to know."""
    config = connection.config
    counted = figures.tools.values()
    return ServerDetails(
        **summary_of(config, health),
        target=target_of(config, connection.redaction),
        prefix=f"{config.name}_" if config.prefix is None else config.prefix,
        filters=Filters(include=list(config.include), exclude=list(config.exclude)),
        timeout_s=config.timeout_s,
        max_concurrency=config.max_concurrency,
        breaker_rules=BreakerDetails(failures=config.breaker.failures, recovery_s=config.breaker.recovery_s),
        calls=sum(tool.calls for tool in counted),
        failures=sum(tool.failures for tool in counted),
        retries=sum(tool.retries for tool in counted),
        in_flight=figures.in_flight,
        offers=[_tool(tool, offer, figures.tools) for tool in tools],
        errors=_errors(connection, figures),
    )


def target_of(config: McpServerConfig, redaction: Redaction) -> str:
    """Name the program that is started or the host that is reached: arguments, paths and queries may hold secrets."""
    if config.builtin is not None:
        return f"{config.builtin}, in this process"
    if config.url is None:
        return redaction.clean(config.command or "")
    url = urlsplit(config.url)
    host = url.netloc.rpartition("@")[2]
    return redaction.clean(f"{url.scheme}://{host}")


def _tool(tool: McpTool, offer: Offer, figures: Mapping[str, ToolFigures]) -> ToolDetails:
    spec = offer[tool.name]
    counted = figures.get(spec.name) or ToolFigures()
    description = spec.description
    return ToolDetails(
        name=tool.name,
        own_name=spec.name,
        description=description and description[:LONGEST_DESCRIPTION],
        input_schema=spec.input_schema,
        annotations=spec.annotations,
        requires_approval=bool((tool.metadata or {}).get("requires_approval")),
        calls=counted.calls,
        failures=counted.failures,
    )


def _errors(connection: ServerConnection, figures: ServerFigures) -> list[ServerError]:
    calls = [
        ServerError(time=error.time.isoformat(), tool=error.tool, outcome=error.outcome, reason=error.reason)
        for error in figures.errors
    ]
    lost = [
        ServerError(time=time.isoformat(), tool=None, outcome="connection", reason=reason)
        for time, reason in connection.status.errors
    ]
    return sorted([*calls, *lost], key=lambda error: error["time"], reverse=True)[:SHOWN_ERRORS]
