"""Make the write node: the model writes the script, of a long article from notes of its parts (A-04)."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.config import get_config
from langgraph.func import task
from typing_extensions import TypedDict

from toolweave.errors import ScriptFailed, StageFailed
from toolweave.nodes.chat_models import ChatModel, LazyChatModel, ScriptModels, as_script_models
from toolweave.nodes.model_turn import THOUGHTS, Answered, Function, ModelUsage, as_object, ask, written_objects
from toolweave.nodes.script import prompts
from toolweave.nodes.script.material import Block, block_of, blocks_of, parts_of, tokens_of
from toolweave.nodes.script.prompts import ScriptPlan, plan_of, settings_of
from toolweave.nodes.script.state import Notes, ScriptDraft, ScriptNode, ScriptState, ScriptUpdate, tell_progress

DEEPEST = 3
LONGEST_REPEATED = 20_000
_NOBODY = frozenset({"", "none", "null"})


def read_draft(answer: AIMessage) -> ScriptDraft:
    """Take the first object that looks like a script, or else the first one, or only the text."""
    objects = [_unwrapped(value, "sections") for _, value in written_objects(answer)]
    written = next((value for value in objects if "sections" in value), objects[0] if objects else None)
    broken = [call["args"] or "" for call in answer.invalid_tool_calls]
    text = "\n".join(part for part in (answer.text, *broken) if part.strip())
    return ScriptDraft(written=None if written is None else _tidied(written), text=text[:LONGEST_REPEATED])


def read_notes(answer: AIMessage) -> list[Block]:
    """Take the notes with their headings, or a text of notes as it is; none if there are none."""
    for _, value in written_objects(answer):
        entries = _as_list(_unwrapped(value, "sections").get("sections"))
        blocks = [block for entry in entries if (block := _noted(entry)) is not None]
        if blocks:
            return blocks
    text = THOUGHTS.sub("", answer.text).strip()
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
    tidied = _unnamed(section, "slide_prompt")
    if "narrations" in section:
        narrations = section["narrations"]
        if isinstance(narrations, str):
            narrations = _as_list(narrations) or [narrations]
        if isinstance(narrations, list):
            narrations = [{"text": item} if isinstance(item, str) else item for item in narrations]
        tidied["narrations"] = _each(narrations, lambda narration: _unnamed(narration, "persona_id"))
    return tidied


def _each(items: Any, tidied: Any) -> Any:
    return [tidied(item) if isinstance(item, dict) else item for item in items] if isinstance(items, list) else items


def _unnamed(value: dict[str, Any], key: str) -> dict[str, Any]:
    """Write null where a model wrote that there is none."""
    written = value.get(key)
    is_none = isinstance(written, str) and written.strip().lower() in _NOBODY
    return {**value, key: None} if is_none else dict(value)


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
    given = notes if isinstance(notes, list) else [notes] if isinstance(notes, str) else []
    lines = [note.strip() if isinstance(note, str) else json.dumps(note, ensure_ascii=False) for note in given]
    text = "\n".join(f"- {note}" for note in lines if note)
    return block_of(str(entry.get("heading") or ""), text) if text else None


AT_ONCE = 4
"""Model calls that run side by side."""
MOST_PARTS = 300
MOST_ROUNDS = 5
LEAST_TOKENS = 100
"""What notes of a part may always take."""
_MUST_SHRINK_TO = 0.9
_FILLED = 0.8
BEGINS_AT, WRITES_AT, ENDS_AT = 40.0, 75.0, 90.0
"""Percent of a run's progress."""
_LESS_TO_WRITE = "Ask for a shorter script (target_length_s), or use a model that may write more."
_LESS_TO_READ = "Have it read less at once (article_tokens), or use a model that may write more."


def write_node(model: ChatModel | ScriptModels) -> ScriptNode:
    """Return the node; it writes draft, notes (where there had to be some) and model_usage.

    It raises ScriptFailed when the model fails, or its answer is empty, cut off or withheld.
    """
    models = as_script_models(model)

    async def write(state: ScriptState, config: RunnableConfig) -> ScriptUpdate:
        writing = await WritingTask.of(state, models)
        notes = await condensed(writing)
        tell_progress(WRITES_AT if notes else BEGINS_AT, "Writing the script")
        draft = await writing.write(config, notes)
        tell_progress(ENDS_AT, "The script is written")
        return {
            "draft": draft,
            "notes": [Notes(heading=block.heading, text=block.text) for block in notes] if notes else None,
            "model_usage": writing.usage,
        }

    return write


@dataclass(frozen=True, slots=True)
class WritingTask:
    """A script to write: its article, how much of it may be read at once, its plan, and the model.

    `usage` lists what each model call has used.
    """

    title: str
    article: list[Block]
    budget: int
    plan: ScriptPlan
    model: LazyChatModel
    usage: list[ModelUsage] = field(default_factory=list)

    @classmethod
    async def of(cls, state: ScriptState, models: ScriptModels) -> Self:
        """Read a state, on a thread: a page may have some megabytes."""
        return await asyncio.to_thread(cls._of, state, models)

    @classmethod
    def _of(cls, state: ScriptState, models: ScriptModels) -> Self:
        page, settings = state["page"], settings_of(state.get("settings"))
        article = blocks_of(page)
        plan = plan_of(settings, article, page_language=page["language"])
        return cls(page["title"], article, settings.article_tokens, plan, models.model_for(settings))

    async def write(
        self,
        config: RunnableConfig,
        notes: Sequence[Block] | None,
        rejected: tuple[ScriptDraft, Sequence[str]] | None = None,
    ) -> ScriptDraft:
        """Ask for the script; `rejected` is a draft that could not be used, and why.

        Raises:
            ScriptFailed: the model failed, or its answer is empty, cut off or withheld.
        """
        said: list[AnyMessage] = [HumanMessage(prompts.script_request(self.title, notes or self.article))]
        if rejected is not None:
            draft, problems = rejected
            # As text: endpoints differ in what they want to know of calls made before.
            written = draft["text"] if draft["written"] is None else json.dumps(draft["written"], ensure_ascii=False)
            said += [AIMessage(written or "(nothing)"), HumanMessage(prompts.repair_request(problems))]
        system = prompts.script_prompt(self.plan, from_notes=bool(notes))
        function = Function(prompts.script_function(self.plan), prompts.script_as_json(self.plan), _LESS_TO_WRITE)
        answer, used = await self._ask("write", system, said, config, function)
        self.usage.append(used)
        return read_draft(answer)

    async def take_notes(self, part: Sequence[Block], number: int, parts: int) -> Answered:
        """Ask for notes of a part of the article, together so long that they can be read at once.

        Raises:
            ScriptFailed: as `write`.
        """
        system = prompts.notes_prompt(max(int(self.budget * _FILLED / parts), LEAST_TOKENS))
        said = [HumanMessage(prompts.notes_request(self.title, part, number, parts))]
        function = Function(prompts.notes_function(), prompts.NOTES_AS_JSON, _LESS_TO_READ)
        return await self._ask("notes", system, said, get_config(), function)

    async def _ask(
        self, stage: str, system: str, said: Sequence[AnyMessage], config: RunnableConfig, function: Function
    ) -> Answered:
        try:
            return await ask(self.model, stage, system, said, config, function)
        except StageFailed as error:
            usage = [*self.usage, *error.model_usage]
            raise ScriptFailed(f"The script was not written: {error}", model_usage=usage) from error


async def condensed(writing: WritingTask) -> list[Block] | None:
    """Take notes of an article that is too long to be read at once: of its parts in order, or of such notes again.

    For nodes of a graph only: each part is a task of it.

    Raises:
        ScriptFailed: a call failed, a part got no notes, or the notes do not become short enough.
    """
    if tokens_of(writing.article) <= writing.budget:
        return None
    tell_progress(BEGINS_AT, "Reading the article in parts")
    blocks = writing.article
    for number in range(MOST_ROUNDS):
        parts = await asyncio.to_thread(parts_of, blocks, writing.budget)
        if len(parts) > MOST_PARTS:
            raise ScriptFailed(
                f"The article is too long: about {tokens_of(blocks)} tokens, which are {len(parts)} parts of "
                f"{writing.budget} (article_tokens), and {MOST_PARTS} are read at most.",
                model_usage=writing.usage,
            )
        notes = await _notes_of(writing, parts, number)
        if (left := tokens_of(notes)) <= writing.budget:
            return notes
        if left > tokens_of(blocks) * _MUST_SHRINK_TO:
            break
        blocks = notes
    raise ScriptFailed(
        "The article is too long, and the notes that the model took of it are not short enough.",
        model_usage=writing.usage,
    )


class PartRead(TypedDict):
    """What one model call gave of a part."""

    notes: list[Notes]
    usage: ModelUsage


async def _notes_of(writing: WritingTask, parts: Sequence[Sequence[Block]], number: int) -> list[Block]:
    """Read the parts of a round side by side; the first that fails ends the others."""
    free = asyncio.Semaphore(AT_ONCE)
    read: list[int] = []

    async def take_notes(place: int) -> PartRead:
        answer, used = await writing.take_notes(parts[place], place + 1, len(parts))
        notes = [Notes(heading=block.heading, text=block.text) for block in read_notes(answer)]
        if not notes:
            raise ScriptFailed(
                f"The model took no notes of part {place + 1} of {len(parts)} of the article.",
                model_usage=[*writing.usage, used],
            )
        return PartRead(notes=notes, usage=used)

    # Stored one by one: after a crash the parts that were read are not read again. They are known by the order in
    # which they are asked for, which is that of the article.
    stored = task(take_notes)

    async def of_part(place: int) -> list[Block]:
        async with free:
            part = await stored(place)
        writing.usage.append(part["usage"])
        read.append(place)
        _tell_parts_read(number, len(read), len(parts))
        return [Block(note["heading"], note["text"]) for note in part["notes"]]

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(of_part(place)) for place in range(len(parts))]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [block for reading in tasks for block in reading.result()]


def _tell_parts_read(number: int, read: int, parts: int) -> None:
    # Nobody knows how many rounds there will be: each takes most of what is left.
    begun, ended = (WRITES_AT - (WRITES_AT - BEGINS_AT) * 0.3**rounds for rounds in (number, number + 1))
    of = "of its notes" if number else "of the article"
    tell_progress(begun + (ended - begun) * read / parts, f"Read {read} of {parts} parts {of}")
