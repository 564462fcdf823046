"""Make the write node: the model writes the script, of a long article from notes of its parts (A-04)."""

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.func import task
from typing_extensions import TypedDict

from toolweave.errors import ConfigError, ModelError, ScriptFailed
from toolweave.nodes.chat_models import ChatModel, LazyChatModel, ScriptModels, as_script_models
from toolweave.nodes.model_turn import (
    ModelUsage,
    answer_status,
    as_object,
    ask_for_choice,
    model_name,
    model_usage,
    written_objects,
)
from toolweave.nodes.script import prompts
from toolweave.nodes.script.material import Block, block_of, blocks_of, parts_of, tokens_of
from toolweave.nodes.script.prompts import ScriptPlan, plan_of, settings_of
from toolweave.nodes.script.state import Draft, Notes, WritingNode, WritingState, WritingUpdate, tell_progress

DEEPEST = 3
LONGEST_REPEATED = 20_000
_THOUGHTS = re.compile(r"<think>(?:(?!<think>).)*?</think>", re.DOTALL)
_NOBODY = frozenset({"", "none", "null"})


def read_draft(answer: AIMessage) -> Draft:
    """Take the first object that looks like a script, or else the first one, or only the text."""
    objects = [_unwrapped(value, "sections") for _, value in written_objects(answer)]
    written = next((value for value in objects if "sections" in value), objects[0] if objects else None)
    broken = [call["args"] or "" for call in answer.invalid_tool_calls]
    text = "\n".join(part for part in (answer.text, *broken) if part.strip())
    return Draft(written=None if written is None else _tidied(written), text=text[:LONGEST_REPEATED])


def read_notes(answer: AIMessage) -> list[Block]:
    """Take the notes with their headings, or a text of notes as it is; none if there are none."""
    for _, value in written_objects(answer):
        entries = _as_list(_unwrapped(value, "sections").get("sections"))
        blocks = [block for entry in entries if (block := _noted(entry)) is not None]
        if blocks:
            return blocks
    text = _THOUGHTS.sub("", answer.text).strip()
    called = answer.tool_calls or answer.invalid_tool_calls or as_object(text) is not None
    return [Block("", text)] if text and not called else []


def _unwrapped(value: dict[str, Any], wanted: str, depth: int = 0) -> dict[str, Any]:
    """Look into a call that was written as text, and into an object under one key."""
    if wanted in value or depth >= DEEPEST:
        return value
    inner = [value.get(key) for key in ("arguments", "parameters")] if "name" in value else list(value.values())
    for item in inner if len(value) <= DEEPEST else []:
        if (found := as_object(item)) is not None and wanted in (deeper := _unwrapped(found, wanted, depth + 1)):
            return deeper
    return value


def _tidied(written: dict[str, Any]) -> dict[str, Any]:
    """Give the form that is asked for where what was meant is plain: a text for a narration, lists as texts."""
    if "sections" not in written:
        return written
    sections = _as_list(written["sections"]) or written["sections"]
    return {**written, "sections": _each(sections, _tidied_section)}


def _tidied_section(section: dict[str, Any]) -> dict[str, Any]:
    tidied = dict(section)
    if _is_nobody(section.get("slide_prompt", "-")):
        tidied["slide_prompt"] = None
    if "narrations" in section:
        narrations = section["narrations"]
        if isinstance(narrations, str):
            narrations = _as_list(narrations) or [narrations]
        if isinstance(narrations, list):
            narrations = [{"text": item} if isinstance(item, str) else item for item in narrations]
        tidied["narrations"] = _each(narrations, _tidied_narration)
    return tidied


def _tidied_narration(narration: dict[str, Any]) -> dict[str, Any]:
    return {**narration, "persona_id": None} if _is_nobody(narration.get("persona_id", "-")) else narration


def _each(items: Any, tidied: Any) -> Any:
    return [tidied(item) if isinstance(item, dict) else item for item in items] if isinstance(items, list) else items


def _is_nobody(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().lower() in _NOBODY)


def _as_list(value: Any) -> list[Any]:
    """Return a list, or the one that a text is the JSON of."""
    if isinstance(value, str):
        value = (as_object(f'{{"list": {value}}}') or {}).get("list")
    return value if isinstance(value, list) else []


def _noted(entry: Any) -> Block | None:
    if isinstance(entry, str):
        return Block("", entry.strip()) if entry.strip() else None
    if not isinstance(entry, dict):
        return None
    notes = entry.get("notes")
    told = _told(notes) if isinstance(notes, list) else [str(notes).strip()] if isinstance(notes, str) else []
    text = "\n".join(f"- {note}" for note in told if note)
    return block_of(str(entry.get("heading") or ""), text) if text else None


def _told(notes: Sequence[Any]) -> list[str]:
    return [note.strip() if isinstance(note, str) else json.dumps(note, ensure_ascii=False) for note in notes]


Stage = Literal["write", "notes"]
_FILTERED = "The model endpoint's content filter withheld the answer (finish_reason content_filter)."
_TOO_LONG: dict[Stage, str] = {
    "write": "Ask for a shorter script (target_length_s), or use a model that may write more.",
    "notes": "Have it read less at once (article_tokens), or use a model that may write more.",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer and what it has used."""

    message: AIMessage
    usage: ModelUsage


@dataclass(frozen=True, slots=True)
class ScriptPrompts:
    """The prompts of one script with the model that answers them."""

    source: LazyChatModel
    plan: ScriptPlan
    title: str

    async def write(
        self,
        material: Sequence[Block],
        config: RunnableConfig,
        *,
        from_notes: bool = False,
        rejected: tuple[Draft, Sequence[str]] | None = None,
    ) -> Answered:
        """Ask for the script; `rejected` is a draft that could not be used, and why.

        Raises:
            ScriptFailed: the model failed, or its answer is empty, cut off or withheld.
        """
        said: list[AnyMessage] = [HumanMessage(prompts.script_request(self.title, material))]
        if rejected is not None:
            draft, problems = rejected
            said += [AIMessage(_repeated(draft)), HumanMessage(prompts.repair_request(problems))]
        system = prompts.script_prompt(self.plan, from_notes=from_notes)
        return await self._ask(
            prompts.script_function(self.plan), system, prompts.script_as_json(self.plan), said, "write", config
        )

    async def take_notes(
        self, part: Sequence[Block], number: int, parts: int, tokens: int, config: RunnableConfig
    ) -> Answered:
        """Ask for notes of a part of the article that take about so many tokens.

        Raises:
            ScriptFailed: as `write`.
        """
        said = [HumanMessage(prompts.notes_request(self.title, part, number, parts))]
        system = prompts.notes_prompt(tokens)
        return await self._ask(prompts.notes_function(), system, prompts.NOTES_AS_JSON, said, "notes", config)

    async def _ask(
        self,
        function: dict[str, Any],
        system: str,
        as_json: str,
        said: Sequence[AnyMessage],
        stage: Stage,
        config: RunnableConfig,
    ) -> Answered:
        prompt = [SystemMessage(system), *said]
        plain = [SystemMessage(f"{system}\n\n{as_json}"), *said]
        with _failing_script():
            model = await self.source.get()
            answer = await ask_for_choice(model, function, prompt, plain, config)
        return _whole(answer, stage, self._usage(stage, model, answer))

    def _usage(self, stage: Stage, model: BaseChatModel, answer: AIMessage) -> ModelUsage:
        return model_usage(stage, answer, model_name(model, answer))


@contextmanager
def _failing_script() -> Iterator[None]:
    """Let a script fail for what a model's failure says; it is written for whoever runs the graph."""
    try:
        yield
    except (ConfigError, ModelError) as error:
        raise ScriptFailed(f"The script was not written: {error}") from error


def _whole(answer: AIMessage, stage: Stage, usage: ModelUsage) -> Answered:
    """Refuse an answer that was cut off or withheld, or is empty."""
    called = answer.tool_calls or answer.invalid_tool_calls or answer.additional_kwargs.get("function_call")
    status = answer_status(answer)
    problem = _FILTERED if status == "content_filter" else None
    if status == "length":
        problem = f"The model's answer was cut off at its length limit (finish_reason length). {_TOO_LONG[stage]}"
    elif problem is None and not called and not answer.text.strip():
        problem = "The model gave an empty answer."
    if problem:
        raise ScriptFailed(f"The script was not written: {problem}", model_usage=[usage])
    return Answered(answer, usage)


def _repeated(draft: Draft) -> str:
    """Repeat what the model wrote, as text: endpoints differ in what they want to know of calls made before."""
    if draft["written"] is not None:
        return json.dumps(draft["written"], ensure_ascii=False)
    return draft["text"] or "(nothing)"


AT_ONCE = 4
"""Model calls that run side by side."""
MOST_PARTS = 300
MOST_ROUNDS = 5
LEAST_TOKENS = 100
"""What notes of a part may always take."""
_MUST_SHRINK_TO = 0.9
_FILLED = 0.8
PartsRead = Callable[[int, int, int], None]
"""Is told of a round, from 0, how many parts of how many are read."""


async def condensed(
    blocks: Sequence[Block],
    budget: int,
    prompts: ScriptPrompts,
    usage: list[ModelUsage],
    parts_read: PartsRead,
) -> list[Block]:
    """Give notes of all blocks that take `budget` estimated tokens at most; `usage` gets what the calls used.

    For nodes of a graph only: each part is a task of it.

    Raises:
        ScriptFailed: a call failed, a part got no notes, or the notes do not become short enough.
    """
    for number in range(MOST_ROUNDS):
        parts = await asyncio.to_thread(parts_of, blocks, budget)
        if len(parts) > MOST_PARTS:
            raise ScriptFailed(
                f"The article is too long: about {tokens_of(blocks)} tokens, which are {len(parts)} parts of {budget} "
                f"(article_tokens), and {MOST_PARTS} are read at most."
            )
        notes = await _Round(prompts, parts, budget, usage, partial(parts_read, number)).notes()
        if (left := tokens_of(notes)) <= budget:
            return notes
        if left > tokens_of(blocks) * _MUST_SHRINK_TO:
            break
        blocks = notes
    raise ScriptFailed("The article is too long, and the notes that the model took of it are not short enough.")


class PartRead(TypedDict):
    """What one model call gave of a part."""

    notes: list[Notes]
    usage: ModelUsage


class _Round:
    """One note-taking over all parts."""

    def __init__(
        self,
        prompts: ScriptPrompts,
        parts: Sequence[Sequence[Block]],
        budget: int,
        usage: list[ModelUsage],
        parts_read: Callable[[int, int], None],
    ) -> None:
        self._prompts = prompts
        self._parts = parts
        self._tokens = max(int(budget * _FILLED / len(parts)), LEAST_TOKENS)
        self._usage = usage
        self._parts_read = parts_read
        self._read = 0
        self._free = asyncio.Semaphore(AT_ONCE)
        # Kept one by one: after a crash the parts that were read are not read again. They are known by the order in
        # which they are asked for, which is that of the article.
        self._read_part = task(self.take_notes)

    async def notes(self) -> list[Block]:
        """Read the parts side by side; the first that fails ends the others."""
        used: list[list[ModelUsage]] = [[] for _ in self._parts]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._of_part(place, used[place])) for place in range(len(self._parts))]
        except ExceptionGroup as failures:
            raise _first(failures) from None
        finally:
            self._usage += [call for calls in used for call in calls]
        return [block for task in tasks for block in task.result()]

    async def _of_part(self, place: int, used: list[ModelUsage]) -> list[Block]:
        async with self._free:
            try:
                read = await self._read_part(place)
            except ScriptFailed as error:
                used += error.model_usage
                error.model_usage = []
                raise
        used.append(read["usage"])
        self._read += 1
        self._parts_read(self._read, len(self._parts))
        return [Block(note["heading"], note["text"]) for note in read["notes"]]

    async def take_notes(self, place: int) -> PartRead:
        """Read one part; it raises ScriptFailed, with what was used."""
        number = place + 1
        answered = await self._prompts.take_notes(
            self._parts[place], number, len(self._parts), self._tokens, get_config()
        )
        notes = [Notes(heading=block.heading, text=block.text) for block in read_notes(answered.message)]
        if not notes:
            raise ScriptFailed(
                f"The model took no notes of part {number} of {len(self._parts)} of the article.",
                model_usage=[answered.usage],
            )
        return PartRead(notes=notes, usage=answered.usage)


def _first(failures: ExceptionGroup[Exception]) -> Exception:
    """Give the failure that ended the others, or what nobody foresaw."""
    found = failures.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


BEGINS_AT, WRITES_AT, ENDS_AT = 40.0, 75.0, 90.0
"""Percent of a run's progress."""


def write_node(model: ChatModel | ScriptModels) -> WritingNode:
    """Return the node; it writes draft, notes (where there had to be some) and model_usage.

    It raises ScriptFailed when the model fails, or its answer is empty, cut off or withheld.
    """
    models = as_script_models(model)

    async def write(state: WritingState, config: RunnableConfig) -> WritingUpdate:
        task = await prepared(state, models)
        usage: list[ModelUsage] = []
        try:
            notes = await _notes(task, usage)
            tell_progress(WRITES_AT if notes else BEGINS_AT, "Writing the script")
            answered = await task.prompts.write(notes or task.article, config, from_notes=notes is not None)
        except ScriptFailed as error:
            error.model_usage = [*usage, *error.model_usage]
            raise
        usage.append(answered.usage)
        tell_progress(ENDS_AT, "The script is written")
        return {
            "draft": read_draft(answered.message),
            "notes": [Notes(heading=block.heading, text=block.text) for block in notes] if notes else None,
            "model_usage": usage,
        }

    return write


@dataclass(frozen=True, slots=True)
class WritingTask:
    """What a state asks for: the article, how much of it may be read at once, and the prompts with their model."""

    article: list[Block]
    budget: int
    prompts: ScriptPrompts


async def prepared(state: WritingState, models: ScriptModels) -> WritingTask:
    """Read a state, on a thread: a page may have some megabytes."""
    return await asyncio.to_thread(_prepared, state, models)


def _prepared(state: WritingState, models: ScriptModels) -> WritingTask:
    page = state["page"]
    settings = settings_of(state.get("settings"))
    article = blocks_of(page)
    plan = plan_of(settings, article, page_language=page["language"])
    prompts = ScriptPrompts(models.model_for(settings), plan, page["title"])
    return WritingTask(article, settings.article_tokens, prompts)


async def _notes(task: WritingTask, usage: list[ModelUsage]) -> list[Block] | None:
    """Take notes of an article that is too long for one call."""
    if tokens_of(task.article) <= task.budget:
        return None
    tell_progress(BEGINS_AT, "Reading the article in parts")

    def parts_read(number: int, read: int, parts: int) -> None:
        # Nobody knows how many rounds there will be: each takes most of what is left.
        begun, ended = (WRITES_AT - (WRITES_AT - BEGINS_AT) * 0.3**rounds for rounds in (number, number + 1))
        of = "of its notes" if number else "of the article"
        tell_progress(begun + (ended - begun) * read / parts, f"Read {read} of {parts} parts {of}")

    return await condensed(task.article, task.budget, task.prompts, usage, parts_read)
