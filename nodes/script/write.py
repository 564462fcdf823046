"""The write node: the model writes the script, for a long article from notes of its parts (A-04)."""

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
from toolweave.nodes.script.page import Block, estimate_tokens, make_block, page_blocks, split_into_parts
from toolweave.nodes.script.prompts import ScriptPlan, plan_script
from toolweave.nodes.script.state import ScriptDraft, ScriptNode, ScriptState, ScriptUpdate, report_progress

MAX_DEPTH = 3
MAX_DRAFT_CHARS = 20_000


def parse_draft(answer: AIMessage) -> ScriptDraft:
    """Return the first object of an answer that looks like a script, or else the first object, or only the text."""
    objects = [_unwrap(value) for _, value in json_objects(answer)]
    written = next((value for value in objects if "sections" in value), objects[0] if objects else None)
    invalid = [call["args"] or "" for call in answer.invalid_tool_calls]
    text = "\n".join(part for part in (answer.text, *invalid) if part.strip())
    return ScriptDraft(written=written, text=text[:MAX_DRAFT_CHARS])


def parse_notes(answer: AIMessage) -> list[Block]:
    """Return the notes of an answer with their headings, or its text as one block; empty if there are none."""
    for _, value in json_objects(answer):
        entries = _unwrap(value).get("sections")
        if isinstance(entries, list) and (blocks := [block for block in map(_notes_block, entries) if block.text]):
            return blocks
    text = THINKING.sub("", answer.text).strip()
    called = answer.tool_calls or answer.invalid_tool_calls or json_object(text) is not None
    return [Block("", text)] if text and not called else []


def _unwrap(value: dict[str, Any], depth: int = 0) -> dict[str, Any]:
    """Find the object with `sections`, also below other keys (a call written as text); parse a list written as text."""
    if "sections" in value:
        parsed = json_object(f'{{"sections": {value["sections"]}}}') if isinstance(value["sections"], str) else None
        return {**value, **(parsed or {})}
    inner = (json_object(item) for item in value.values()) if depth < MAX_DEPTH else ()
    found = (_unwrap(item, depth + 1) for item in inner if item is not None)
    return next((item for item in found if "sections" in item), value)


def _notes_block(entry: Any) -> Block:
    heading, notes = (entry.get("heading"), entry.get("notes")) if isinstance(entry, dict) else ("", entry)
    lines = [str(note).strip() for note in (notes if isinstance(notes, list) else [notes]) if note]
    return make_block(str(heading or ""), "\n".join(f"- {line}" for line in lines if line))


MAX_CONCURRENT_CALLS = 4
"""Concurrent model calls of a job."""
MAX_PARTS = 300
MAX_ROUNDS = 5
MIN_NOTES_TOKENS = 100
"""Minimum token budget for the notes of a part."""
_MAX_SHRINK_RATIO = 0.9
_NOTES_SHARE = 0.8
START_PCT, WRITE_PCT, END_PCT = 40.0, 75.0, 90.0
"""Progress of a run in percent."""
_OUTPUT_FIX = "Use a shorter target_length_s, or a model with a longer output."
_INPUT_FIX = "Use fewer article_tokens, or a model with a longer output."


def write_node(model: ModelSource | ScriptModels) -> ScriptNode:
    """Return the node; it writes draft, notes (if the article is too long) and model_usage.

    It raises ScriptFailed if the model fails, or its answer is empty, cut off or withheld.
    """
    models = as_script_models(model)

    async def write(state: ScriptState, config: RunnableConfig) -> ScriptUpdate:
        writing = await asyncio.to_thread(WritingTask.from_state, state, models)
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
    """A script to write: its article, the token budget of one model call, its plan, and the model.

    `usage` lists the token usage of each model call.
    """

    title: str
    article: list[Block]
    budget: int
    plan: ScriptPlan
    model: LazyChatModel
    usage: list[ModelUsage] = field(default_factory=list)

    @classmethod
    def from_state(cls, state: ScriptState, models: ScriptModels) -> Self:
        """Create the task from a state; call it in a thread, because a page may have some megabytes."""
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
        """Let the model write the script; `rejected` is an invalid draft with its problems.

        Raises:
            ScriptFailed: the model failed, or its answer is empty, cut off or withheld.
        """
        messages: list[AnyMessage] = [HumanMessage(prompts.script_request(self.title, notes or self.article))]
        if rejected is not None:
            draft, problems = rejected
            # As text, because endpoints require different details of earlier tool calls.
            text = draft["text"] if draft["written"] is None else json.dumps(draft["written"], ensure_ascii=False)
            messages += [AIMessage(text or "(nothing)"), HumanMessage(prompts.repair_request(problems))]
        system = prompts.script_prompt(self.plan, from_notes=bool(notes))
        function = Function(prompts.script_function(self.plan), prompts.script_json_prompt(self.plan), _OUTPUT_FIX)
        answer, used = await self._ask_model("write", system, messages, config, function)
        self.usage.append(used)
        return parse_draft(answer)

    async def take_notes(self, part: Sequence[Block], number: int, parts: int) -> ModelAnswer:
        """Let the model take notes of a part; the notes of all parts together fit into one model call.

        Raises:
            ScriptFailed: as `write`.
        """
        system = prompts.notes_prompt(max(int(self.budget * _NOTES_SHARE / parts), MIN_NOTES_TOKENS))
        messages = [HumanMessage(prompts.notes_request(self.title, part, number, parts))]
        function = Function(prompts.notes_function(), prompts.NOTES_JSON_PROMPT, _INPUT_FIX)
        return await self._ask_model("notes", system, messages, get_config(), function)

    async def _ask_model(
        self, stage: str, system: str, messages: Sequence[AnyMessage], config: RunnableConfig, function: Function
    ) -> ModelAnswer:
        try:
            return await ask_model(self.model, stage, system, messages, config, function)
        except StageFailed as error:
            usage = [*self.usage, *error.model_usage]
            raise ScriptFailed(f"The script could not be written: {error}", model_usage=usage) from error


async def condense_article(writing: WritingTask) -> list[Block] | None:
    """Replace an article that is too long for one model call by notes of its parts, and these by notes again if needed.

    Call it in a graph's node only: each part is a LangGraph task.

    Raises:
        ScriptFailed: a call failed, a part got no notes, or the notes stay too long.
    """
    blocks, tokens = writing.article, estimate_tokens(writing.article)
    if tokens <= writing.budget:
        return None
    report_progress(START_PCT, "Reading the article in parts")
    for _ in range(MAX_ROUNDS):
        parts = await asyncio.to_thread(split_into_parts, blocks, writing.budget)
        if len(parts) > MAX_PARTS:
            raise ScriptFailed(
                f"The article is too long: about {tokens} tokens, which are {len(parts)} parts of "
                f"{writing.budget} (article_tokens); at most {MAX_PARTS} parts are read.",
                model_usage=writing.usage,
            )
        before, blocks = tokens, await _take_all_notes(writing, parts, of_notes=blocks is not writing.article)
        tokens = estimate_tokens(blocks)
        if tokens <= writing.budget:
            return blocks
        if tokens > before * _MAX_SHRINK_RATIO:
            break
    raise ScriptFailed(
        "The article is too long, and the model's notes of it are not short enough.", model_usage=writing.usage
    )


async def _take_all_notes(writing: WritingTask, parts: Sequence[Sequence[Block]], *, of_notes: bool) -> list[Block]:
    """Take notes of the parts of a round concurrently; the first failure cancels the others."""
    semaphore = asyncio.Semaphore(MAX_CONCURRENT_CALLS)
    done: list[int] = []

    async def take_notes(place: int) -> dict[str, Any]:
        answer, used = await writing.take_notes(parts[place], place + 1, len(parts))
        notes = parse_notes(answer)
        if not notes:
            raise ScriptFailed(
                f"The model took no notes of part {place + 1} of {len(parts)} of the article.",
                model_usage=[*writing.usage, used],
            )
        return {"notes": [block._asdict() for block in notes], "usage": used}

    # LangGraph stores each task's result, so that a resumed run does not repeat finished parts. It identifies tasks by
    # the order in which they start, which is the order of the article.
    stored = task(take_notes)

    async def notes_of_part(place: int) -> list[Block]:
        async with semaphore:
            part = await stored(place)
        writing.usage.append(part["usage"])
        done.append(place)
        # The number of rounds is unknown.
        share = 1.0 if of_notes else len(done) / len(parts)
        source = "of its notes" if of_notes else "of the article"
        report_progress(START_PCT + (WRITE_PCT - START_PCT) * share, f"Read {len(done)} of {len(parts)} parts {source}")
        return [Block(**note) for note in part["notes"]]

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(notes_of_part(place)) for place in range(len(parts))]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [block for reading in tasks for block in reading.result()]
