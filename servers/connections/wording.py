"""Write what a model or user reads when a tool call could not be carried out; raw texts go to the log only."""

from collections.abc import Sequence

from toolweave.errors import (
    CallRefused,
    InvalidArguments,
    RequestDeclined,
    RetriesExhausted,
    ServerUnavailable,
    ToolProtocolError,
    ToolTimeout,
)

SHOWN_NAME = 128


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


def closing(server: str, tool: str | None) -> CallRefused:
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


def left_out(server: str, tool: str) -> CallRefused:
    """Build the error for a tool that the operator's filters leave out."""
    return CallRefused(
        f"The tool server {server!r} offers no tool of the name {tool[:SHOWN_NAME]!r} here. Use another one.",
        server=server,
        tool=tool,
        executed="no",
    )


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


def declined(server: str, tool: str | None = None) -> RequestDeclined:
    """Build the error for a request that a server refuses for what it is; it is no use to try the same again."""
    return RequestDeclined(
        f"The tool server {server!r} refused the request, for example because it is too large; nothing was done. "
        "Please try again with other arguments.",
        server=server,
        tool=tool,
        executed="no",
    )


def unauthorized(server: str, tool: str | None = None) -> CallRefused:
    """Build the error for a server that does not take the credentials it was called with; it is no use to try again."""
    return CallRefused(
        f"The tool server {server!r} does not accept the credentials it was called with. "
        "If they are those of the signed-in user, please sign in again.",
        server=server,
        tool=tool,
        executed="no",
    )


def unknown_caller(server: str, tool: str | None, of_user: Sequence[str], of_request: Sequence[str]) -> CallRefused:
    """Build the error for a call that needs to know more of its caller than is known."""
    needed = [f"{', '.join(of_user)} of the signed-in user"] if of_user else []
    needed += [f"{', '.join(of_request)} given with the request"] if of_request else []
    subject = f"the tool {tool!r} of the server {server!r}" if tool else f"the server {server!r}"
    return CallRefused(
        f"The call was not sent: {subject} needs {' and '.join(needed)}. Please sign in, or ask the operator.",
        server=server,
        tool=tool,
        executed="no",
    )


def unsendable_header(server: str, tool: str | None, header: str) -> CallRefused:
    """Build the error for a value of the caller that cannot be in an HTTP header; the value is not shown."""
    return CallRefused(
        f"The call was not sent: what is known of the caller cannot be sent in the header {header!r} of the server "
        f"{server!r}. It is too long, or has a line break or a character that is not Latin-1.",
        server=server,
        tool=tool,
        executed="no",
    )


def too_many_callers(server: str, tool: str | None) -> CallRefused:
    """Build the error for one caller more than a server has sessions for, all of which are in use."""
    return CallRefused(
        f"Too many users call the tool server {server!r} at this moment. Please try again in a few seconds.",
        server=server,
        tool=tool,
        executed="no",
    )


def not_understood(server: str, tool: str | None = None) -> ToolProtocolError:
    """Build the error for an answer that is not MCP."""
    return ToolProtocolError(
        f"The tool server {server!r} gave an answer that could not be understood.", server=server, tool=tool
    )


def too_large(server: str, tool: str | None = None) -> ToolProtocolError:
    """Build the error for an answer over the limit of what one message may take."""
    return ToolProtocolError(
        f"The tool server {server!r} gave an answer that is too large to be read. Please ask for less at once.",
        server=server,
        tool=tool,
    )
