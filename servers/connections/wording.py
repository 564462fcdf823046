"""Write what a model or user reads when a tool call could not be carried out; raw texts go to the log only."""

from toolweave.errors import (
    CallRefused,
    InvalidArguments,
    RetriesExhausted,
    ServerUnavailable,
    ToolProtocolError,
    ToolTimeout,
)


def unavailable(server: str, tool: str | None = None) -> ServerUnavailable:
    """Build the error for a server that cannot be reached."""
    return ServerUnavailable(
        f"The tool server {server!r} is not available right now. Please try again later.",
        server=server,
        tool=tool,
        executed="no",
    )


def refused(server: str, tool: str) -> CallRefused:
    """Build the error for a call that is not even tried: its server is known to be down, or keeps failing."""
    return CallRefused(
        f"The tool server {server!r} is temporarily unavailable. Please try again in a few seconds.",
        server=server,
        tool=tool,
        executed="no",
    )


def exhausted(server: str, tool: str, attempts: int) -> RetriesExhausted:
    """Build the error for a call none of whose attempts was answered."""
    return RetriesExhausted(
        f"The tool server {server!r} did not answer: the call was tried {attempts} times. Please try again later.",
        server=server,
        tool=tool,
    )


def closing(server: str, tool: str) -> CallRefused:
    """Build the error for a call that the end of this process, or of its connections, cuts short."""
    return CallRefused(
        f"The tool server {server!r} is not available any more: the connection to it is being closed.",
        server=server,
        tool=tool,
        executed="no",
    )


def unusable(server: str, tool: str | None, reason: str) -> CallRefused:
    """Build the error for a server that will not come up by itself: unknown, disabled or misconfigured."""
    return CallRefused(f"The tool server {server!r} cannot be used: {reason}", server=server, tool=tool, executed="no")


def lost(server: str, tool: str | None = None) -> ServerUnavailable:
    """Build the error for a connection that broke after the request may have left."""
    return ServerUnavailable(
        f"The connection to the tool server {server!r} broke before it answered; "
        "the request may or may not have been carried out. Please check, then try again.",
        server=server,
        tool=tool,
    )


def never_sent(server: str, tool: str, limit_s: float) -> ToolTimeout:
    """Build the error for a call whose deadline passed before there was a connection or a free slot for it."""
    return ToolTimeout(
        f"The tool server {server!r} was not ready for the call within {limit_s:g} seconds. "
        "Please try again in a few seconds.",
        server=server,
        tool=tool,
        executed="no",
    )


def unsent(server: str, tool: str, problem: str) -> InvalidArguments:
    """Build the error for arguments that cannot be written as JSON."""
    return InvalidArguments(
        f"The call was not sent: {problem}. Please correct the arguments.", server=server, tool=tool, executed="no"
    )


def too_slow(server: str, tool: str, limit_s: float) -> ToolTimeout:
    """Build the error for a call whose deadline passed."""
    return ToolTimeout(
        f"The tool {tool!r} took longer than {limit_s:g} seconds and was stopped. "
        "Please try again later or ask for less at once.",
        server=server,
        tool=tool,
    )


def not_understood(server: str, tool: str | None = None) -> ToolProtocolError:
    """Build the error for an answer that is not MCP."""
    return ToolProtocolError(
        f"The tool server {server!r} gave an answer that could not be understood.", server=server, tool=tool
    )
