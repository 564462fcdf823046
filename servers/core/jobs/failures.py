"""Put into words why a job service gave no job, and what to do about it (C-04): endpoint and duration always."""

import time
from dataclasses import dataclass

from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.redact import redact_text
from toolweave.servers.error_codes import (
    ENDPOINT_ERROR,
    ENDPOINT_TIMEOUT,
    ENDPOINT_UNREACHABLE,
    FORBIDDEN_ENDPOINT,
    NOT_FOUND,
    TOO_LARGE,
    ToolFailed,
)

_MOST_REPEATED = 300
_MAY_HAVE_BEGUN = (
    "The job may have begun: find out at the service before you run it again, since a second call could run it twice."
)
_ASK_AGAIN = "Call check_job_status again in a moment; asking changes nothing."
_CHECK_SERVICE = "Check that the service runs, then call again: nothing has begun."

_TRUST = "Check the endpoint's host, or ask the operator to trust the certificate's maker (SSL_CERT_FILE)."


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was made; `endpoint` is what may be shown of its URL, `since` a reading of perf_counter."""

    method: str
    endpoint: str
    since: float

    @property
    def starts_a_job(self) -> bool:
        """Say whether it may have had an effect."""
        return self.method == "POST"

    def after(self) -> str:
        """Tell how long it has taken so far."""
        seconds = time.perf_counter() - self.since
        return f"after {seconds:.2f} s" if seconds >= 1 else f"after {seconds * 1000:.0f} ms"

    def __str__(self) -> str:
        return f"{self.method} {self.endpoint}" if self.starts_a_job else f"GET {self.endpoint}/<job_id>"


def refused(asked: Asked, error: OutboundRefused) -> ToolFailed:
    """Explain that the outbound policy does not let the request go."""
    return ToolFailed(
        FORBIDDEN_ENDPOINT,
        f"{asked} was not sent: {error}",
        "Use another endpoint, or ask the operator to allow what the message names.",
    )


def broken(asked: Asked, error: OutboundFailed, within_s: float) -> ToolFailed:
    """Explain that no usable answer came."""
    unsure = _MAY_HAVE_BEGUN if asked.starts_a_job else _ASK_AGAIN
    match error.reason:
        case "resolve":
            told = f"{asked} was not sent: the host's name cannot be resolved ({asked.after()})."
            return ToolFailed(ENDPOINT_UNREACHABLE, told, "Check the endpoint's host, then call again.")
        case "connect":
            untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
            why = "the service's certificate is not trusted here" if untrusted else "the service accepts no connection"
            told = f"{asked} was not sent: {why} ({asked.after()})."
            return ToolFailed(ENDPOINT_UNREACHABLE, told, _TRUST if untrusted else _CHECK_SERVICE)
        case "timeout":
            told = f"{asked} got no complete answer within {within_s:.3g} s; it was given up {asked.after()}."
            return ToolFailed(ENDPOINT_TIMEOUT, told, unsure)
        case "too_large":
            told = f"{asked}, {asked.after()}: {error}"
            return ToolFailed(TOO_LARGE, told, _MAY_HAVE_BEGUN if asked.starts_a_job else "Ask the service for less.")
    return ToolFailed(ENDPOINT_UNREACHABLE, f"{asked}: the connection broke {asked.after()}.", unsure)


def status_failure(asked: Asked, status: int, body: str) -> ToolFailed:
    """Explain a status of 300 and more; what the service says goes along, shortened and without secrets."""
    if status in (404, 410) and not asked.starts_a_job:
        return ToolFailed(
            NOT_FOUND,
            f"{asked}: the service knows no such job ({status} {asked.after()}).",
            "Check the job_id and that the endpoint is the one the job was run at; finished jobs may be forgotten.",
        )
    said = " ".join(redact_text(body).split())[:_MOST_REPEATED]
    told = f"{asked} was answered with the status {status} {asked.after()}" + (f": {said}" if said else ".")
    return ToolFailed(ENDPOINT_ERROR, told, _advice(status, starts_a_job=asked.starts_a_job))


def no_job(asked: Asked, why: str) -> ToolFailed:
    """Explain an answer that is no job."""
    return ToolFailed(
        ENDPOINT_ERROR,
        f"{asked} was answered with what is no job ({asked.after()}): {why}.",
        _MAY_HAVE_BEGUN if asked.starts_a_job else "Check that the endpoint is that of a job service.",
    )


def _advice(status: int, *, starts_a_job: bool) -> str:
    if status < 400:
        return "Redirects are not followed: use the URL that the service itself answers at, if the operator allows it."
    if status in (401, 403):
        return "The service wants credentials: ask the operator, who sets TOOLWEAVE_JOB_HEADERS."
    if status == 429:
        return "The service asks to wait: call again later."
    if status < 500:
        return "Correct the params, or the endpoint, as the service says." if starts_a_job else "Check the endpoint."
    return _MAY_HAVE_BEGUN if starts_a_job else _ASK_AGAIN
