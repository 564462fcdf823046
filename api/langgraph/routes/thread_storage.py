"""Endpoints that say what threads take up, and free it: storage and prune."""

from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer
from toolweave.api.langgraph.components import body_schema
from toolweave.api.langgraph.endpoint import Endpoint
from toolweave.api.langgraph.requests import path_uuid, read_body, uuid_of
from toolweave.api.langgraph.served import served
from toolweave.runtime.runs.cleaning import prune_threads

PRUNE = body_schema("ThreadPruneRequest")


async def prune(request: Request) -> Response:
    """Delete threads, or their histories; unknown ids do not count."""
    body = await read_body(request, PRUNE)
    ids = [uuid_of(thread_id, "thread") for thread_id in body.fields["thread_ids"]]
    pruned = await prune_threads(served(request).engine, ids, body.get("strategy", "delete"))
    return json_answer({"pruned_count": pruned}, headers=body.headers())


async def storage(request: Request) -> Response:
    """Say how many bytes a thread's checkpoints take up."""
    thread_id = path_uuid(request, "thread")
    persistence = served(request).persistence
    await persistence.threads.get(thread_id)
    taken = await persistence.checkpointer.storage(thread_id)
    by_channel = {
        name: {"versions": len(versions), "bytes": taken.channel_bytes.get(name, 0)}
        for name, versions in taken.channel_versions.items()
    }
    channel_bytes = sum(channel["bytes"] for channel in by_channel.values())
    channels = {
        "count": sum(channel["versions"] for channel in by_channel.values()),
        "bytes": channel_bytes,
        "by_channel": by_channel,
    }
    return json_answer(
        {
            "thread_id": thread_id,
            "total_bytes": taken.checkpoint_bytes + channel_bytes + taken.write_bytes,
            "checkpoints": {"count": taken.checkpoints, "bytes": taken.checkpoint_bytes},
            "channel_values": channels,
            "pending_writes": {"count": taken.writes, "bytes": taken.write_bytes},
        }
    )


_TAG = "Threads"

ENDPOINTS = (
    Endpoint(
        "POST",
        "/threads/prune",
        prune,
        "Delete threads or their histories",
        _TAG,
        body="ThreadPruneRequest",
        answer="ThreadsPruned",
    ),
    Endpoint(
        "GET",
        "/threads/{thread_id}/storage",
        storage,
        "Measure a thread",
        _TAG,
        answer="ThreadStorage",
        errors=(404, 422),
    ),
)
