"""Carry out the protocol's commands, wherever they come from."""

from collections.abc import Sequence
from uuid import uuid4

from toolweave.api.langgraph.protocol.envelopes import ProtocolCommand, RefusedCommand
from toolweave.api.langgraph.protocol.run_commands import respond, start_run
from toolweave.api.langgraph.protocol.subscribing import listed_channels, unsupported
from toolweave.api.langgraph.served import Served
from toolweave.runtime.codec import loads
from toolweave.runtime.events.thread_log import ThreadEvent
from toolweave.runtime.models import JsonObject

NO_RUN = "No active run is bound to this thread."


async def carry_out(here: Served, thread_id: str, command: ProtocolCommand) -> JsonObject:
    """Do what a command says and give its result; those about subscriptions are a connection's own matter.

    Raises:
        RefusedCommand: there is no such command, or it cannot be carried out.
        ToolweaveError: what the runtime refuses.
    """
    match command.method:
        case "run.start":
            return await start_run(here, thread_id, command.params)
        case "input.respond":
            return await respond(here, thread_id, command.params)
        case "agent.getTree":
            return await _tree(here, thread_id, command.params)
        case _:
            raise RefusedCommand("unknown_command", f"Unknown protocol command: {command.method[:200]}")


def subscribe_without_connection(command: ProtocolCommand) -> JsonObject | None:
    """Answer a command about subscriptions that came by itself, with nowhere to send events to; None for others.

    Raises:
        RefusedCommand: it asks for nothing, or for what does not exist.
    """
    if command.method == "subscription.subscribe":
        checked_channels(command)
        return {"subscription_id": str(uuid4()), "replayed_events": 0}
    if command.method == "subscription.unsubscribe":
        raise RefusedCommand("no_such_subscription", f"Unknown subscription: {subscription_id(command)[:200]}")
    if command.method == "subscription.reconnect":
        raise RefusedCommand("no_such_run", NO_RUN)
    return None


def checked_channels(command: ProtocolCommand) -> list[str]:
    """Give the channels a subscription asks for. Raises RefusedCommand when it names none, or others."""
    channels = listed_channels(command.params)
    if channels is None:
        raise RefusedCommand("invalid_argument", f"{command.method} requires a non-empty channels array.")
    if unsupported(channels) is not None:
        raise RefusedCommand("invalid_argument", f"{command.method} received an unsupported channel.")
    return channels


def subscription_id(command: ProtocolCommand) -> str:
    """Give the subscription that is meant. Raises RefusedCommand when none is named."""
    given = command.params.get("subscription_id")
    if not isinstance(given, str):
        raise RefusedCommand("invalid_argument", f"{command.method} requires a subscription_id.")
    return given


async def _tree(here: Served, thread_id: str, params: JsonObject) -> JsonObject:
    run_id = params.get("run_id")
    told = await here.engine.runtime.announcements.log.lifecycle(thread_id, run_id if isinstance(run_id, str) else None)
    tree = _agent_tree(told)
    if tree is None:
        raise RefusedCommand("no_such_run", NO_RUN)
    return {"tree": tree}


def _agent_tree(events: Sequence[ThreadEvent]) -> JsonObject | None:
    """Return the graphs that a run has run: {namespace, status, graph_name, children?}; None without events."""
    nodes: dict[tuple[str, ...], JsonObject] = {}
    for event in events:
        told = loads(event.data)["params"]["data"]
        node = nodes.setdefault(event.namespace, {"namespace": list(event.namespace), "status": "", "graph_name": ""})
        node |= {"status": told["event"], "graph_name": told.get("graph_name") or node["graph_name"]}
    for namespace, node in nodes.items():
        parent = nodes.get(namespace[:-1]) if namespace else None
        if parent is not None:
            parent.setdefault("children", []).append(node)
    return nodes.get(())
