"""Name the channels of the newer protocol (langgraph_api.md section 7)."""

from toolweave.runtime.models import Run

# What a run started by this protocol shows as its stream modes; `lifecycle` is no mode of the older API.
PROTOCOL_MODES = ("values", "updates", "messages", "tools", "lifecycle", "custom", "tasks", "checkpoints")
CHANNELS = ("values", "updates", "messages", "tools", "custom", "lifecycle", "input", "tasks", "checkpoints")
NAMED = "custom:"
# Who asks for all of these at once is shown a plain graph's steps as the reference server shows them: once each, as
# values, messages, lifecycle and input. Who asks for some of them gets what they name.
EVERYTHING = frozenset({"values", "updates", "tasks", "custom", "checkpoints"})


def speaks_protocol(run: Run) -> bool:
    """Say whether a run was started by this protocol."""
    return "lifecycle" in (run.kwargs.get("stream_mode") or ())


def is_channel(name: object) -> bool:
    """Say whether this is a channel that can be subscribed to."""
    return isinstance(name, str) and (name in CHANNELS or (name.startswith(NAMED) and name != NAMED))


def method_of(channel: str) -> str:
    """Give the method under which a channel's events are sent."""
    if channel == "input":
        return "input.requested"
    return "custom" if channel.startswith(NAMED) else channel
