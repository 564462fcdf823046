"""Decide whether a job may be run at a URL that a model gives, and which headers go with it (C-04)."""

from dataclasses import dataclass
from ipaddress import ip_network
from urllib.parse import quote

from pydantic import SecretStr

from toolweave.config.job_endpoints import JobEndpoint, JobHeaders, path_segments
from toolweave.config.outbound_allow import AllowedTarget
from toolweave.errors import OutboundRefused
from toolweave.outbound_urls import OutboundTarget, read_target
from toolweave.redact import redact_text
from toolweave.servers.error_codes import FORBIDDEN_ENDPOINT, INVALID_PARAMETER, NOT_CONFIGURED, ToolFailed

SETTING = "TOOLWEAVE_JOB_ENDPOINTS"
_MOST_SHOWN = 5
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class CalledEndpoint:
    """An allowed endpoint as a call uses it; `shown` is what messages say of it."""

    target: OutboundTarget
    headers: tuple[tuple[str, SecretStr], ...]

    @property
    def url(self) -> str:
        """Give where a job is started."""
        return self.target.url

    @property
    def shown(self) -> str:
        """Give the URL for messages: short, without what has the form of a secret."""
        return redact_text(self.target.url)[:_LONGEST_SHOWN]

    @property
    def only(self) -> AllowedTarget:
        """Give the one host and port that requests may go to."""
        address = self.target.address
        return AllowedTarget(self.target.host if address is None else ip_network(address), self.target.port)

    def job_url(self, job_id: str) -> str:
        """Give where a job is asked about: its id is one segment below the endpoint, whatever is in it."""
        return f"{self.target.url.rstrip('/')}/{quote(job_id, safe='')}"


@dataclass(frozen=True, slots=True)
class AllowedEndpoints:
    """What the operator allows, and the headers for it."""

    allowed: tuple[JobEndpoint, ...]
    headers: tuple[JobHeaders, ...] = ()

    def called(self, endpoint: str) -> CalledEndpoint:
        """Read the endpoint of a call.

        Raises:
            ToolFailed: nothing is allowed, this is not, or it is not the plain URL of an endpoint.
        """
        if not self.allowed:
            raise ToolFailed(
                NOT_CONFIGURED,
                f"No job endpoint may be called: {SETTING} is not set.",
                f"Ask the operator to set {SETTING} to the URLs of the services that may be called.",
            )
        target, segments = _read(endpoint)
        if not any(_covers(entry, target, segments) for entry in self.allowed):
            shown = ", ".join(entry.shown for entry in self.allowed[:_MOST_SHOWN])
            more = " and others" if len(self.allowed) > _MOST_SHOWN else ""
            raise ToolFailed(
                FORBIDDEN_ENDPOINT,
                f"The endpoint is not among those that may be called. Allowed: {shown}{more}, and what is below.",
            )
        # The longest prefix last: it wins over headers of the same name.
        fitting = sorted(
            (entry for entry in self.headers if _covers(entry.endpoint, target, segments)),
            key=lambda entry: len(entry.endpoint.segments),
        )
        headers = {name.lower(): (name, value) for entry in fitting for name, value in entry.headers}
        return CalledEndpoint(target, tuple(headers.values()))


def _read(endpoint: str) -> tuple[OutboundTarget, tuple[str, ...]]:
    try:
        if "?" in endpoint or "#" in endpoint:
            raise ValueError("What the job needs goes into params.")
        # From the text, not from the target: there, dot segments have been carried out already.
        path = endpoint.partition("://")[2].partition("/")[2]
        return read_target(endpoint), path_segments(f"/{path}")
    except (OutboundRefused, ValueError) as refused:
        raise ToolFailed(
            INVALID_PARAMETER,
            "Parameter 'endpoint' must be an http:// or https:// URL without credentials, query, fragment, empty or "
            f"dot segments. {refused}",
        ) from None


def _covers(entry: JobEndpoint, target: OutboundTarget, segments: tuple[str, ...]) -> bool:
    return entry.covers(target.scheme, target.host, target.port, target.address, segments)
