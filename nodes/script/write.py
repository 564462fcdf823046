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

from toolweave.config.script_settings import ScriptSettings
from toolweave.errors import ScriptFailed, StageFailed
from toolweave.nodes.chat_models import LazyChatModel, ModelSource, ScriptModels, as_script_models
from toolweave.nodes.model_turn import THINKING, Function, ModelAnswer, ModelUsage, ask_model, json_object, json_objects
from toolweave.nodes.script import prompts
from toolweave.nodes.script.article_parts import estimate_tokens, make_block, page_blocks, split_into_parts
from toolweave.nodes.script.page import Block
from toolweave.nodes.script.prompts import ScriptPlan, plan_script
from toolweave.nodes.script.state import ScriptDraft, ScriptNode, ScriptState, ScriptUpdate, report_progress

MAX_DEPTH = 3
MAX_DRAFT_CHARS = 20_000


def parse_draft(answer: AIMessage) -> ScriptDraft:
    """Take the first object that looks like a script, or else the first one, or only the text."""
    objects = [_unwrap(value) for _, value in json_objects(answer)]
    written = next((value for value in objects if "sections" in value), objects[0] if objects else None)
    broken = [call["args"] or "" for call in answer.invalid_tool_calls]
    text = "\n".join(part for part in (answer.text, *broken) if part.strip())
    return ScriptDraft(written=written, text=text[:MAX_DRAFT_CHARS])


def parse_notes(answer: AIMessage) -> list[Block]:
    """Take the notes with their headings, or a text of notes as it is; none if there are none."""
    for _, value in json_objects(answer):
        entries = _unwrap(value).get("sections")
        if isinstance(entries, list) and (blocks := [block for block in map(_notes_block, entries) if block.text]):
            return blocks
    text = THINKING.sub("", answer.text).strip()
    called = answer.tool_calls or answer.invalid_tool_calls or json_object(text) is not None
    return [Block("", text)] if text and not called else []


def _unwrap(value: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Look into objects under other keys, such as a call that was written as text, and read a list written as text."""
    if "sections" in value:
        read = json_object(f'{{"sections": {value["sections"]}}}') if isinstance(value["sections"], str) else None
        return {**value, **(read or {})}
    inner = (json_object(item) for item in value.values()) if depth < MAX_DEPTH else ()
    found = (_unwrap(item, depth + 1) for item in inner if item is not None)
    return next((item for item in found if "sections" in item), value)


def _notes_block(entry: Any) -> Block:
    heading, notes = (entry.get("heading"), entry.get("notes")) if isinstance(entry, dict) else ("", entry)
    lines = [str(note).strip() for note in (notes if isinstance(notes, list) else [notes]) if note]
    return make_block(str(heading or ""), "\n".join(f"- {line}" for line in lines if line))


MAX_CONCURRENT_CALLS = 4
"""Model calls that run side by side."""
MAX_PARTS = 300
MAX_ROUNDS = 5
MIN_NOTES_TOKENS = 100
"""What notes of a part may always take."""
_MAX_SHRINK_RATIO = 0.9
_NOTES_SHARE = 0.8
START_PCT, WRITE_PCT, END_PCT = 40.0, 75.0, 90.0
"""Percent of a run's progress."""
_OUTPUT_FIX = "Ask for a shorter script (target_length_s), or use a model that may write more."
_INPUT_FIX = "Have it read less at once (article_tokens), or use a model that may write more."


def write_node(model: ModelSource | ScriptModels) -> ScriptNode:
    """Return the node; it writes draft, notes (where there had to be some) and model_usage.

    It raises ScriptFailed when the model fails, or its answer is empty, cut off or withheld.
    """
    models = as_script_models(model)

    async def write(state: ScriptState, config: RunnableConfig) -> ScriptUpdate:
        writing = await asyncio.to_thread(WritingTask.of, state, models)
        notes = await condense_article(writing)
        report_progress(WRITE_PCT if notes else START_PCT, "Writing the script")
        draft = await writing.write(config, notes)
        report_progress(END_PCT, "The script is written")
        return {
            "draft": draft,
            "notes": [block._asdict() for block in notes] if notes else None,
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
    def of(cls, state: ScriptState, models: ScriptModels) -> Self:
        """Read a state; call it on a thread: a page may have some megabytes."""
        page, settings = state["page"], ScriptSettings.model_validate(state.get("settings") or {})
        article = page_blocks(page)
        plan = plan_script(settings, article, page_language=page["language"])
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
        function = Function(prompts.script_function(self.plan), prompts.script_json_prompt(self.plan), _OUTPUT_FIX)
        answer, used = await self._ask_model("write", system, said, config, function)
        self.usage.append(used)
        return parse_draft(answer)

    async def take_notes(self, part: Sequence[Block], number: int, parts: int) -> ModelAnswer:
        """Ask for notes of a part of the article, together so long that they can be read at once.

        Raises:
            ScriptFailed: as `write`.
        """
        system = prompts.notes_prompt(max(int(self.budget * _NOTES_SHARE / parts), MIN_NOTES_TOKENS))
        said = [HumanMessage(prompts.notes_request(self.title, part, number, parts))]
        function = Function(prompts.notes_function(), prompts.NOTES_JSON_PROMPT, _INPUT_FIX)
        return await self._ask_model("notes", system, said, get_config(), function)

    async def _ask_model(
        self, stage: str, system: str, said: Sequence[AnyMessage], config: RunnableConfig, function: Function
    ) -> ModelAnswer:
        try:
            return await ask_model(self.model, stage, system, said, config, function)
        except StageFailed as error:
            usage = [*self.usage, *error.model_usage]
            raise ScriptFailed(f"The script was not written: {error}", model_usage=usage) from error


async def condense_article(writing: WritingTask) -> list[Block] | None:
    """Take notes of an article that is too long to be read at once: of its parts in order, or of such notes again.

    For nodes of a graph only: each part is a task of it.

    Raises:
        ScriptFailed: a call failed, a part got no notes, or the notes do not become short enough.
    """
    blocks, left = writing.article, estimate_tokens(writing.article)
    if left <= writing.budget:
        return None
    report_progress(START_PCT, "Reading the article in parts")
    for _ in range(MAX_ROUNDS):
        parts = await asyncio.to_thread(split_into_parts, blocks, writing.budget)
        if len(parts) > MAX_PARTS:
            raise ScriptFailed(
                f"The article is too long: about {left} tokens, which are {len(parts)} parts of "
                f"{writing.budget} (article_tokens), and {MAX_PARTS} are read at most.",
                model_usage=writing.usage,
            )
        read, blocks = left, await _take_all_notes(writing, parts, of_notes=blocks is not writing.article)
        left = estimate_tokens(blocks)
        if left <= writing.budget:
            return blocks
        if left > read * _MAX_SHRINK_RATIO:
            break
    raise ScriptFailed(
        "The article is too long, and the notes that the model took of it are not short enough.",
        model_usage=writing.usage,
    )


async def _take_all_notes(writing: WritingTask, parts: Sequence[Sequence[Block]], *, of_notes: bool) -> list[Block]:
    """Read the parts of a round side by side; the first that fails ends the others."""
    free = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
    read: list[int] = []

    async def take_notes(place: int) -> dict[str, Any]:
        answer, used = await writing.take_notes(parts[place], place + 1, len(parts))
        notes = parse_notes(answer)
        if not notes:
            raise ScriptFailed(
                f"The model took no notes of part {place + 1} of {len(parts)} of the article.",
                model_usage=[*writing.usage, used],
            )
        return {"notes": [block._asdict() for block in notes], "usage": used}

    # Stored one by one: after a crash the parts that were read are not read again. They are known by the order in
    # which they are asked for, which is that of the article.
    stored = task(take_notes)

    async def of_part(place: int) -> list[Block]:
        async with free:
            part = await stored(place)
        writing.usage.append(part["usage"])
        read.append(place)
        # Nobody knows how many rounds there will be.
        share = 1.0 if of_notes else len(read) / len(parts)
        of = "of its notes" if of_notes else "of the article"
        report_progress(START_PCT + (WRITE_PCT - START_PCT) * share, f"Read {len(read)} of {len(parts)} parts {of}")
        return [Block(**note) for note in part["notes"]]

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(of_part(place)) for place in range(len(parts))]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [block for reading in tasks for block in reading.result()]
