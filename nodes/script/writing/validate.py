"""Make the validate node: what was written is checked, and what cannot be used repaired once (A-04)."""

from langchain_core.runnables import RunnableConfig

from toolweave.errors import ScriptFailed
from toolweave.nodes.chat_model_source import ChatModel
from toolweave.nodes.model_usage import ModelUsage, usage_summary
from toolweave.nodes.progress_events import tell_progress
from toolweave.nodes.script.writing.material import Block
from toolweave.nodes.script.writing.model_script import read_draft
from toolweave.nodes.script.writing.script_model import ScriptModels, as_script_models
from toolweave.nodes.script.writing.script_rules import UnusableScript, checked_script, seconds_of
from toolweave.nodes.script.writing.write import WritingTask, prepared
from toolweave.nodes.script.writing.writing_state import Draft, ScriptMetadata, WritingNode, WritingState, WritingUpdate
from toolweave.video_script import VideoScript

LONGEST_PROBLEMS = 2_000


def validate_node(model: ChatModel | ScriptModels) -> WritingNode:
    """Return the node; it writes script, metadata and model_usage, and empties draft and notes.

    It raises ScriptFailed when the script cannot be used, and its repair cannot either.
    """
    models = as_script_models(model)

    async def validate(state: WritingState, config: RunnableConfig) -> WritingUpdate:
        tell_progress(92.0, "Checking the script")
        task = await prepared(state, models)
        usage: list[ModelUsage] = []
        script = await _usable(state, task, usage, config)
        tell_progress(100.0, f"The script is ready: {len(script.sections)} sections, about {seconds_of(script):.0f} s")
        return {
            "script": script.model_dump(mode="json"),
            "draft": None,
            "notes": None,
            "model_usage": usage,
            "metadata": ScriptMetadata(usage=usage_summary([*state.get("model_usage", []), *usage])),
        }

    return validate


async def _usable(
    state: WritingState, task: WritingTask, usage: list[ModelUsage], config: RunnableConfig
) -> VideoScript:
    draft = state.get("draft") or Draft(written=None, text="")
    try:
        return checked_script(draft, task.prompts.plan)
    except UnusableScript as error:
        problems = error.problems
    tell_progress(94.0, "Having the script corrected")
    notes = [Block(note["heading"], note["text"]) for note in state.get("notes") or []]
    answered = await task.prompts.write(
        notes or task.article, config, from_notes=bool(notes), rejected=(draft, problems)
    )
    usage.append(answered.usage)
    try:
        return checked_script(read_draft(answered.message), task.prompts.plan)
    except UnusableScript as error:
        told = " ".join(error.problems)[:LONGEST_PROBLEMS]
        raise ScriptFailed(
            f"The model wrote no script that can be used, not at the second try either: {told}", model_usage=usage
        ) from None
