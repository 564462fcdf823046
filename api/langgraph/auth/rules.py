"""Say for every endpoint what the application's handlers are asked; an endpoint that is not here is refused."""

from collections.abc import Awaitable, Callable, Mapping

from toolweave.api.langgraph.auth import other_rules as other
from toolweave.api.langgraph.auth import rpc_rules as rpc
from toolweave.api.langgraph.auth import thread_rules as threads
from toolweave.api.langgraph.auth.authorization import AuthRequest

Rule = Callable[[AuthRequest], Awaitable[None]]

_THREAD = "/threads/{thread_id}"
_RUN = f"{_THREAD}/runs/{{run_id}}"
_ASSISTANT = "/assistants/{assistant_id}"
_CRON = "/runs/crons/{cron_id}"
_AGENT = "/a2a/{assistant_id}"
_CARD = "/.well-known/agent-card.json"

RULES: Mapping[str, Rule] = {
    "POST /assistants": other.create_assistant,
    "POST /assistants/search": other.search_assistants,
    "POST /assistants/count": other.search_assistants,
    f"GET {_ASSISTANT}": other.read_assistant,
    f"PATCH {_ASSISTANT}": other.update_assistant,
    f"DELETE {_ASSISTANT}": other.delete_assistant,
    f"GET {_ASSISTANT}/graph": other.read_assistant,
    f"GET {_ASSISTANT}/schemas": other.read_assistant,
    f"GET {_ASSISTANT}/subgraphs": other.read_assistant,
    f"GET {_ASSISTANT}/subgraphs/{{namespace}}": other.read_assistant,
    f"POST {_ASSISTANT}/versions": other.read_assistant,
    f"POST {_ASSISTANT}/latest": other.set_version,
    "POST /threads": threads.create_thread,
    "POST /threads/search": threads.search_threads,
    "POST /threads/count": threads.search_threads,
    "POST /threads/prune": threads.prune_threads,
    f"GET {_THREAD}": threads.read_thread,
    f"PATCH {_THREAD}": threads.update_thread,
    f"DELETE {_THREAD}": threads.delete_thread,
    f"POST {_THREAD}/copy": threads.copy_thread,
    f"GET {_THREAD}/state": threads.read_thread,
    f"POST {_THREAD}/state": threads.update_state,
    f"POST {_THREAD}/state/checkpoint": threads.read_thread,
    f"GET {_THREAD}/state/{{checkpoint_id}}": threads.read_thread,
    f"GET {_THREAD}/history": threads.read_thread,
    f"POST {_THREAD}/history": threads.read_thread,
    f"GET {_THREAD}/storage": threads.read_thread,
    f"GET {_THREAD}/stream": threads.read_thread,
    f"POST {_THREAD}/stream/events": threads.listen,
    f"GET {_THREAD}/stream/events": threads.listen,
    f"POST {_THREAD}/commands": rpc.send_command,
    f"POST {_THREAD}/runs": threads.create_run,
    f"POST {_THREAD}/runs/stream": threads.create_run,
    f"POST {_THREAD}/runs/wait": threads.create_run,
    f"GET {_THREAD}/runs": threads.list_runs,
    f"GET {_RUN}": threads.read_run,
    f"DELETE {_RUN}": threads.delete_run,
    f"GET {_RUN}/join": threads.join_run,
    f"GET {_RUN}/stream": threads.join_run,
    f"POST {_RUN}/cancel": threads.cancel_run,
    "POST /runs": threads.create_run,
    "POST /runs/stream": threads.create_run,
    "POST /runs/wait": threads.create_run,
    "POST /runs/batch": threads.create_runs,
    "POST /runs/cancel": threads.cancel_runs,
    "GET /runs/{run_id}/stream": threads.read_stateless_run,
    "POST /runs/crons": other.create_cron,
    f"POST {_THREAD}/runs/crons": other.create_cron,
    "POST /runs/crons/search": other.search_crons,
    "POST /runs/crons/count": other.search_crons,
    f"GET {_CRON}": other.read_cron,
    f"PATCH {_CRON}": other.update_cron,
    f"DELETE {_CRON}": other.delete_cron,
    "PUT /store/items": other.put_item,
    "GET /store/items": other.get_item,
    "DELETE /store/items": other.delete_item,
    "POST /store/items/search": other.search_items,
    "POST /store/namespaces": other.list_namespaces,
    "POST /ui/{graph}": other.read_interface,
    "POST /mcp": rpc.speak_mcp,
    "DELETE /mcp": rpc.end_mcp,
    f"POST {_AGENT}": rpc.speak_a2a,
    f"GET {_AGENT}": rpc.read_card,
    f"GET {_AGENT}{_CARD}": rpc.read_card,
    f"GET {_CARD}": rpc.read_card,
}
