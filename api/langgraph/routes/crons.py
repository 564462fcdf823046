"""Endpoints of crons (scheduled runs), and the run that each firing creates (langgraph_api.md 2.5)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from langchain_core.utils.uuid import uuid7
from starlette.requests import Request
from starlette.responses import Response

from toolweave.api.langgraph.answers import json_answer, page_answer
from toolweave.api.langgraph.auth import rules
from toolweave.api.langgraph.endpoints import Endpoints
from toolweave.api.langgraph.requests import Body, parse_uuid
from toolweave.api.langgraph.run_requests import assign_priority, build_run, check_run_fields
from toolweave.api.langgraph.run_schemas import CRON_RUN_FIELDS
from toolweave.api.langgraph.serialization import cron_json
from toolweave.api.langgraph.services import ApiServices, get_services
from toolweave.errors import BadRequest, InvalidRequest, NotFound
from toolweave.runtime.caller import ANONYMOUS, USER_KEY, Caller, User, current_caller, use_caller
from toolweave.runtime.crons import FireCron, next_firing
from toolweave.runtime.models import Assistant, Cron, JsonObject, NewRun
from toolweave.runtime.persistence.crons import ClaimFiring

# A change of one of these fields changes the next firing.
SCHEDULE_FIELDS = frozenset({"schedule", "timezone", "end_time", "enabled"})

endpoints = Endpoints("Crons", "disable_runs")


def build_cron(fields: JsonObject, thread_id: str | None) -> Cron:
    """Build the caller's cron from a request's fields; `assistant_id` is not resolved.

    Raises:
        InvalidRequest: the schedule, the time zone or the end is invalid, or it would never fire.
    """
    now = datetime.now(UTC)
    cron_id = str(uuid7())
    caller = current_caller()
    cron = Cron(
        cron_id=cron_id,
        assistant_id=fields["assistant_id"],
        thread_id=thread_id,
        user_id="" if caller.user is None else caller.user.identity,
        user=caller.configurable().get(USER_KEY),
        credentials=Caller(caller.user).credentials(),
        schedule=fields["schedule"],
        timezone=fields.get("timezone"),
        end_time=_parse_end_time(fields.get("end_time")),
        payload={**fields, "config": _add_cron_id(fields.get("config", {}), cron_id)},
        metadata=fields.get("metadata", {}),
        on_run_completed=fields.get("on_run_completed", "delete") if thread_id is None else None,
        enabled=fields.get("enabled", True),
        next_run_at=None,
        created_at=now,
        updated_at=now,
    )
    return replace(cron, next_run_at=_first_firing(cron, now))


def apply_patch(cron: Cron, fields: JsonObject, now: datetime) -> Cron:
    """Apply a PATCH's fields, where a null `end_time` clears it. Raises InvalidRequest as `build_cron` does."""
    metadata = {**cron.metadata, **fields.get("metadata", {})}
    payload = {**cron.payload, **fields}
    if "metadata" in payload:
        payload["metadata"] = metadata
    payload["config"] = _add_cron_id(payload.get("config", {}), cron.cron_id)
    patched = replace(
        cron,
        schedule=fields.get("schedule", cron.schedule),
        timezone=fields.get("timezone", cron.timezone),
        end_time=_parse_end_time(fields["end_time"]) if "end_time" in fields else cron.end_time,
        payload=payload,
        metadata=metadata,
        on_run_completed=cron.on_run_completed and fields.get("on_run_completed", cron.on_run_completed),
        enabled=fields.get("enabled", cron.enabled),
        updated_at=now,
    )
    return replace(patched, next_run_at=_first_firing(patched, now)) if SCHEDULE_FIELDS & fields.keys() else patched


def cron_run(services: ApiServices, cron: Cron, assistant: Assistant) -> NewRun:
    """Build the run of one firing, as for a request.

    Raises:
        RequestError: a request for this run would be refused.
    """
    fields = {name: cron.payload[name] for name in CRON_RUN_FIELDS if name in cron.payload}
    fields["config"] = _remove_cron_id(fields.get("config", {}))
    fields["metadata"] = {**cron.metadata, "cron_id": cron.cron_id}
    if cron.on_run_completed is not None:
        fields["on_completion"] = cron.on_run_completed
    body = Body(fields)
    check_run_fields(body, stateless=cron.thread_id is None)
    new = build_run(services, body, assistant, cron.thread_id).new_run
    new.kwargs["config"]["configurable"]["cron_id"] = cron.cron_id
    return replace(new, credentials=cron.credentials, sealed=cron.sealed)


def fire_callback(services: ApiServices) -> FireCron:
    """Return the cron clock's callback, which starts a cron's run for the user who created the cron."""

    async def fire(cron: Cron, claim: ClaimFiring) -> None:
        assistant = await services.persistence.assistants.get(cron.assistant_id)
        with use_caller(ANONYMOUS if cron.user is None else Caller(User(cron.user))):
            new = cron_run(services, cron, assistant)
            new = await assign_priority(services, new, assistant, cron.thread_id, cron.cron_id)
            await services.engine.start_run(new, extra_work=claim)

    return fire


def _first_firing(cron: Cron, now: datetime) -> datetime | None:
    if next_firing(cron.schedule, cron.timezone, now) is None:
        raise InvalidRequest(f"Invalid cron schedule: {cron.schedule[:80]!r} names no moment that will come.")
    return next_firing(cron.schedule, cron.timezone, now, cron.end_time)


def _parse_end_time(text: str | None) -> datetime | None:
    """Parse an end time; without an offset it is in UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidRequest(f"Invalid end_time: {text[:80]!r} is not a time in ISO 8601.") from None


def _add_cron_id(config: Mapping[str, Any], cron_id: str) -> JsonObject:
    """Add the cron's id to a config, where nodes and the official server's clients read it."""
    return {**config, "configurable": {**(config.get("configurable") or {}), "cron_id": cron_id}}


def _remove_cron_id(config: Mapping[str, Any]) -> JsonObject:
    configurable = {name: item for name, item in (config.get("configurable") or {}).items() if name != "cron_id"}
    return {**config, "configurable": configurable}


@endpoints(
    "POST /threads/{thread_id}/runs/crons",
    rules.create_cron,
    "ThreadCronCreate",
    "Cron",
    errors=(400, 404, 422),
    summary="Create a cron on a thread",
)
@endpoints("POST /runs/crons", rules.create_cron, "CronCreate", "Cron", errors=(400, 404, 422))
async def create_cron(request: Request, body: Body, thread_id: str | None = None) -> Response:
    """Create a cron.

    Its runs share the thread of the path, or each has its own.
    """
    services = get_services(request)
    # Reject invalid fields before any lookup.
    check_run_fields(Body({**body.fields, "config": _remove_cron_id(body.get("config", {}))}), stateless=False)
    cron = build_cron(body.fields, thread_id)
    await services.webhooks.check_url(body.get("webhook"))
    assistant = await _find_assistant(services, body.fields["assistant_id"])
    payload = {**cron.payload, "assistant_id": assistant.assistant_id}
    cron = replace(cron, assistant_id=assistant.assistant_id, payload=payload)
    # Reject an invalid run now, not at every firing.
    cron_run(services, cron, assistant)
    return json_answer(cron_json(await services.persistence.crons.create(cron)))


@endpoints("POST /runs/crons/search", rules.search_crons, "CronSearch", "Cron[]")
async def search_crons(request: Request, body: Body) -> Response:
    """Search crons.

    Newest first unless the body sorts otherwise.
    """
    crons = get_services(request).persistence.crons
    filters = {**_search_filters(body), "enabled": body.get("enabled")}
    return await page_answer(body, partial(crons.search, **filters), partial(crons.count, **filters), cron_json)


@endpoints("POST /runs/crons/count", rules.search_crons, "CronCountRequest", "Count")
async def count_crons(request: Request, body: Body) -> Response:
    """Count crons."""
    return json_answer(await get_services(request).persistence.crons.count(**_search_filters(body)))


@endpoints("GET /runs/crons/{cron_id}", rules.read_cron, answer="Cron")
async def get_cron(request: Request, cron_id: str) -> Response:
    """Get a cron."""
    return json_answer(cron_json(await get_services(request).persistence.crons.get(cron_id)))


@endpoints("PATCH /runs/crons/{cron_id}", rules.update_cron, "CronPatch", "Cron", errors=(400, 404, 422))
async def patch_cron(request: Request, cron_id: str, body: Body) -> Response:
    """Change a cron.

    Reject what a run request would reject.
    """
    if not body.value:
        raise BadRequest("Request body cannot be empty")
    # The only field for which null has a meaning.
    fields = {**body.fields, "end_time": None} if body.value.get("end_time", ...) is None else body.fields
    services, now = get_services(request), datetime.now(UTC)
    await services.webhooks.check_url(body.get("webhook"))
    cron = await services.persistence.crons.get(cron_id)
    cron_run(services, apply_patch(cron, fields, now), await services.persistence.assistants.get(cron.assistant_id))
    changed = await services.persistence.crons.update(cron_id, lambda current: apply_patch(current, fields, now))
    return json_answer(cron_json(changed))


@endpoints("DELETE /runs/crons/{cron_id}", rules.delete_cron, status=204)
async def delete_cron(request: Request, cron_id: str) -> Response:
    """Delete a cron.

    Its started runs continue.
    """
    await get_services(request).persistence.crons.delete(cron_id)
    return Response(None, 204)


async def _find_assistant(services: ApiServices, name_or_id: str) -> Assistant:
    try:
        return await services.find_assistant(name_or_id)
    except (InvalidRequest, NotFound):
        raise NotFound(f"Assistant '{name_or_id[:200]}' not found") from None


def _search_filters(body: Body) -> dict[str, Any]:
    assistant_id, thread_id = body.get("assistant_id"), body.get("thread_id")
    return {
        "assistant_id": None if assistant_id is None else parse_uuid(assistant_id, "assistant"),
        "thread_id": None if thread_id is None else parse_uuid(thread_id, "thread"),
        "metadata": body.get("metadata"),
    }
