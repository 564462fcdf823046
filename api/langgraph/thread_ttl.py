"""Read how long a thread is to live, and show it (langgraph_api.md 2.2, `ttl`)."""

from datetime import timedelta

from toolweave.api.langgraph.requests import Body
from toolweave.api.langgraph.wire import timestamp
from toolweave.config.langgraph_json import CheckpointerEntry
from toolweave.runtime.models import JsonObject, Thread, ThreadTtl
from toolweave.runtime.runs.cleaning import Sweeps


def configured_ttl(entry: CheckpointerEntry) -> ThreadTtl | None:
    """Give the time to live that langgraph.json sets for threads that ask for none."""
    if entry.ttl is None or entry.ttl.default_ttl is None:
        return None
    return ThreadTtl(entry.ttl.default_ttl, entry.ttl.strategy)


def sweeps(entry: CheckpointerEntry) -> Sweeps:
    """Give the times at which expired threads are looked for: threads can have a time to live without the section."""
    if entry.ttl is None:
        return Sweeps()
    minutes = entry.ttl.sweep_interval_minutes
    return Sweeps(Sweeps().every if minutes is None else timedelta(minutes=minutes), entry.ttl.sweep_limit)


def requested_ttl(body: Body, default: ThreadTtl | None) -> ThreadTtl | None:
    """Read `ttl`: minutes, or {ttl, strategy}; minutes that are not given are the server's, if it has any."""
    asked = body.get("ttl")
    if not isinstance(asked, dict):
        return None if asked is None else ThreadTtl(float(asked))
    minutes, strategy = asked.get("ttl"), asked.get("strategy")
    if minutes is not None:
        return ThreadTtl(float(minutes), strategy or "delete")
    return default and ThreadTtl(default.minutes, strategy or default.strategy)


def without_effect(body: Body, ttl: ThreadTtl | None) -> tuple[str, ...]:
    """Name the field when it says nothing: a strategy alone, on a server that has no time for it."""
    return ("ttl",) if "ttl" in body.fields and ttl is None else ()


def ttl_json(thread: Thread) -> JsonObject:
    """Give what `?include=ttl` adds to a thread: nothing for one that does not expire."""
    if thread.ttl is None:
        return {}
    expires_at = None if thread.expires_at is None else timestamp(thread.expires_at)
    return {
        "ttl": {"strategy": thread.ttl.strategy, "ttl_minutes": thread.ttl.minutes, "expires_at": expires_at},
    }
