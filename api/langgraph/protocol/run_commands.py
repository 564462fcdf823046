"""Start runs, and answer what they ask, by the commands of the newer protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolweave.api.langgraph.json_body import checked_body
from toolweave.api.langgraph.protocol.envelopes import RefusedCommand
from toolweave.api.langgraph.run_request import STATEFUL, check_run_fields, run_request
from toolweave.api.langgraph.served import Served
from toolweave.api.langgraph.thread_states import require_checkpoint, state_config
from toolweave.errors import NotFound
from toolweave.runtime.events.thread_log import PROTOCOL_MODES
from toolweave.runtime.models import TERMINAL, JsonObject, NewRun, Run, Thread

# What a client may say of a run beside its input.
START_FIELDS = ("assistant_id", "input", "config", "context", "metadata", "multitask_strategy", "langsmith_tracer")
RESPOND_FIELDS = ("config", "context", "metadata", "strict_resume")
COMMAND_FIELDS = ("update", "goto")
ACTIVE_RUNS_SHOWN = 1000


async def start_run(here: Served, thread_id: str, params: JsonObject) -> JsonObject:
    """Carry out `run.start`: create the run, and the thread when it is missing.

    On a thread that waits for a human, an input is the answer, unless the run forks from a checkpoint.

    Raises:
        RefusedCommand: no assistant is named, or the checkpoint does not exist.
        ToolweaveError: what creating the run refuses.
    """
    if not isinstance(params.get("assistant_id"), str):
        raise RefusedCommand("invalid_argument", "run.start requires an assistant_id.")
    fields = _given(params, START_FIELDS)
    if params.get("multitaskStrategy") is not None:
        fields.setdefault("multitask_strategy", params["multitaskStrategy"])
    if "input" in fields and not _forks(fields) and await _is_asked(here, thread_id):
        fields["command"] = {"resume": fields.pop("input")}
    new = await _new_run(here, thread_id, {**fields, "if_not_exists": "create"})
    return {"run_id": (await here.engine.start(new)).run.run_id}


async def respond(here: Served, thread_id: str, params: JsonObject) -> JsonObject:
    """Carry out `input.respond`: resume with the answers to one or several questions, each answered once.

    Raises:
        RefusedCommand: no question is named, nobody waits for an answer to it, or the thread has no run.
        ToolweaveError: what creating the run refuses.
    """
    answers = _answers(params)
    # One at a time, so that the run with the first answer is seen by whoever brings a second one.
    async with here.engine.runtime.announcements.answering:
        newest = await _newest_run(here, thread_id)
        await _require_waiting(here, thread_id, answers)
        command = {"resume": answers, **_given(params, COMMAND_FIELDS)}
        fields = {**_given(params, RESPOND_FIELDS), "assistant_id": newest.assistant_id, "command": command}
        await here.engine.start(await _new_run(here, thread_id, fields))
    return {}


async def _new_run(here: Served, thread_id: str, given: JsonObject) -> NewRun:
    fields = {name: item for name, item in given.items() if item is not None}
    STATEFUL.check(fields)
    body = checked_body(fields, STATEFUL)
    check_run_fields(body, stateless=False)
    assistant = await here.assistant(fields["assistant_id"])
    new = run_request(body, assistant, thread_id, here.graphs.metadata(assistant.graph_id)).new
    start: JsonObject = new.kwargs["config"]["configurable"]
    if start.get("checkpoint_id"):
        checkpoint = {name: str(start.get(name) or "") for name in ("checkpoint_id", "checkpoint_ns")}
        try:
            await require_checkpoint(here, state_config(thread_id, checkpoint))
        except NotFound as error:
            raise RefusedCommand("no_such_checkpoint", str(error)) from None
    shown = {"stream_mode": list(PROTOCOL_MODES), "subgraphs": True, "resumable": True}
    return replace(new, kwargs={**new.kwargs, **shown})


def _given(params: JsonObject, names: Sequence[str]) -> JsonObject:
    return {name: params[name] for name in names if params.get(name) is not None}


def _forks(fields: Mapping[str, Any]) -> bool:
    config = fields.get("config")
    configurable = config.get("configurable") if isinstance(config, dict) else None
    return isinstance(configurable, dict) and bool(configurable.get("checkpoint_id"))


async def _is_asked(here: Served, thread_id: str) -> bool:
    # The voice before the row, which is written a moment after the question was heard.
    if here.engine.runtime.announcements.stands_still(thread_id):
        return True
    # In this order: a client answers as soon as it is asked, which is before the thread says so.
    if here.engine.runtime.announcements.waits(thread_id):
        return True
    try:
        thread = await here.persistence.threads.get(thread_id)
    except NotFound:
        return False
    return thread.status == "interrupted" and bool(thread.interrupts)


def _answers(params: JsonObject) -> JsonObject:
    responses = params.get("responses")
    entries: Sequence[Any] = responses if isinstance(responses, list) else (params,)
    if not entries:
        raise RefusedCommand("invalid_argument", "input.respond requires at least one response.")
    answers: JsonObject = {}
    for entry in entries:
        interrupt_id = entry.get("interrupt_id") if isinstance(entry, dict) else None
        if not isinstance(interrupt_id, str) or not interrupt_id:
            raise RefusedCommand("invalid_argument", "input.respond requires an interrupt_id.")
        if not isinstance(entry.get("namespace"), list | None):
            raise RefusedCommand("invalid_argument", "The namespace of an interrupt is a list.")
        answers[interrupt_id] = entry.get("response")
    return answers


async def _newest_run(here: Served, thread_id: str) -> Run:
    try:
        found = await here.persistence.runs.list(thread_id, limit=1)
    except NotFound:
        found = []
    if not found:
        raise RefusedCommand("no_such_run", "No interrupted run is bound to this thread.")
    return found[0]


async def _require_waiting(here: Served, thread_id: str, answers: JsonObject) -> None:
    """Refuse answers to questions that nobody asks, or that a run on its way to them answers already."""
    # In this order, since runs go on meanwhile: what a run that has ended has asked, or answered, is in the thread.
    asking = {number: here.engine.runtime.announcements.asking(thread_id, number) for number in answers}
    active = [run for run in await here.persistence.runs.list(thread_id, limit=ACTIVE_RUNS_SHOWN) if _is_active(run)]
    questions = _questions(await here.persistence.threads.get(thread_id))
    for number, asker in asking.items():
        answered = any(number in _answered_by(run) for run in active if run.run_id != asker)
        if answered or (asker is None and number not in questions):
            raise RefusedCommand("no_such_interrupt", f"Unknown or already-consumed interrupt: {number[:200]}")


def _is_active(run: Run) -> bool:
    return run.status not in TERMINAL


def _answered_by(run: Run) -> Mapping[str, Any]:
    resume = (run.kwargs.get("command") or {}).get("resume")
    return resume if isinstance(resume, dict) else {}


def _questions(thread: Thread) -> set[str]:
    return {question["id"] for questions in (thread.interrupts or {}).values() for question in questions}
