"""Make the write node: the model writes the script, of a long article from notes (A-04)."""

import asyncio
from dataclasses import dataclass

from langchain_core.runnables import RunnableConfig

from toolweave.errors import ScriptFailed
from toolweave.nodes.chat_model_source import ChatModel
from toolweave.nodes.model_usage import ModelUsage
from toolweave.nodes.progress_events import tell_progress
from toolweave.nodes.script.writing.chunking import tokens_of
from toolweave.nodes.script.writing.material import Block, blocks_of
from toolweave.nodes.script.writing.model_script import read_draft
from toolweave.nodes.script.writing.notes import condensed
from toolweave.nodes.script.writing.prompting import ScriptPrompts
from toolweave.nodes.script.writing.script_model import ScriptModels, as_script_models
from toolweave.nodes.script.writing.script_plan import plan_of, settings_of
from toolweave.nodes.script.writing.writing_state import Notes, WritingNode, WritingState, WritingUpdate

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
