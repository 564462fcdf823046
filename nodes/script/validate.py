"""The validate node: check the script against its plan, and let the model correct it once (A-04)."""

import asyncio
from collections.abc import Iterator

from langchain_core.runnables import RunnableConfig
from pydantic import ValidationError

from toolweave.config.documents import format_path, problems_in
from toolweave.errors import ScriptFailed
from toolweave.nodes.chat_models import ModelSource, ScriptModels, as_script_models
from toolweave.nodes.model_turn import usage_summary
from toolweave.nodes.script.page import Block
from toolweave.nodes.script.prompts import ScriptPlan
from toolweave.nodes.script.script_file import VideoScript
from toolweave.nodes.script.state import (
    ScriptDraft,
    ScriptMetadata,
    ScriptNode,
    ScriptState,
    ScriptUpdate,
    report_progress,
)
from toolweave.nodes.script.write import WritingTask
from toolweave.nodes.spoken_length import spoken_seconds

MAX_PROBLEMS = 10
MAX_PROBLEM_CHARS = 300


def check_script(draft: ScriptDraft, plan: ScriptPlan) -> VideoScript | list[str]:
    """Parse a draft; if it violates the schema or the plan, return the problems for the model."""
    if draft["written"] is None:
        return ["The answer is neither a call of write_script nor a complete JSON object."]
    try:
        script = VideoScript.model_validate(draft["written"])
    except ValidationError as error:
        problems = [f"{format_path(place) or 'The script'} {expected}." for place, expected in problems_in(error)]
    else:
        rules = (_section_problems, _persona_problems, _length_problems)
        problems = [problem for rule in rules for problem in rule(script, plan)]
        if not problems:
            return script
    return [problem[:MAX_PROBLEM_CHARS] for problem in problems[:MAX_PROBLEMS]]


def length_s(script: VideoScript) -> float:
    """Estimate the spoken length of the narrations in seconds."""
    return spoken_seconds(narration.text for section in script.sections for narration in section.narrations)


def _section_problems(script: VideoScript, plan: ScriptPlan) -> Iterator[str]:
    count = len(script.sections)
    if count < plan.min_sections:
        yield f"There must be at least {plan.min_sections} sections; there are {count}."
    if count > plan.settings.sections.max:
        yield f"There must be at most {plan.settings.sections.max} sections; there are {count}."
    for number, section in enumerate(script.sections):
        if not any(character.isalnum() for narration in section.narrations for character in narration.text):
            yield f"sections[{number}] has no words to speak."


def _persona_problems(script: VideoScript, plan: ScriptPlan) -> Iterator[str]:
    ids = [persona.id for persona in plan.settings.personas]
    for first, section in enumerate(script.sections):
        for second, narration in enumerate(section.narrations):
            place, persona_id = f"sections[{first}].narrations[{second}].persona_id", narration.persona_id
            if not persona_id and ids:
                yield f"{place} is required; it must be one of {', '.join(ids)}."
            elif persona_id and not ids:
                yield f"{place} must be left out: there is one narrator."
            elif persona_id and persona_id not in ids:
                yield f"{place} must be one of {', '.join(ids)}; there is no {persona_id[:100]!r}."


def _length_problems(script: VideoScript, plan: ScriptPlan) -> Iterator[str]:
    seconds, settings = length_s(script), plan.settings
    shortest, longest = plan.seconds / settings.length_factor, settings.target_length_s * settings.length_factor
    length = f"The narrations take about {seconds:.0f} seconds when spoken"
    if seconds < shortest:
        yield f"{length}, which is too short: about {plan.seconds:.0f} are wanted, at least {shortest:.0f}."
    if seconds > longest:
        yield f"{length}, which is too long: about {plan.seconds:.0f} are wanted, at most {longest:.0f}."


MAX_REPORT_CHARS = 2_000


def validate_node(model: ModelSource | ScriptModels) -> ScriptNode:
    """Return the node; it writes script, metadata and model_usage, and clears draft and notes.

    It raises ScriptFailed if the script and its correction are both invalid.
    """
    models = as_script_models(model)

    async def validate(state: ScriptState, config: RunnableConfig) -> ScriptUpdate:
        report_progress(92.0, "Checking the script")
        writing = await asyncio.to_thread(WritingTask.from_state, state, models)
        script = await _check_or_repair(state, writing, config)
        report_progress(100.0, f"The script is ready: {len(script.sections)} sections, about {length_s(script):.0f} s")
        return {
            "script": script.model_dump(mode="json"),
            "draft": None,
            "notes": None,
            "model_usage": writing.usage,
            "metadata": ScriptMetadata(usage=usage_summary([*state.get("model_usage", []), *writing.usage])),
        }

    return validate


async def _check_or_repair(state: ScriptState, writing: WritingTask, config: RunnableConfig) -> VideoScript:
    draft = state.get("draft") or ScriptDraft(written=None, text="")
    checked = check_script(draft, writing.plan)
    if isinstance(checked, VideoScript):
        return checked
    report_progress(94.0, "Correcting the script")
    notes = [Block(**note) for note in state.get("notes") or []]
    checked = check_script(await writing.write(config, notes, rejected=(draft, checked)), writing.plan)
    if isinstance(checked, VideoScript):
        return checked
    problems = " ".join(checked)[:MAX_REPORT_CHARS]
    raise ScriptFailed(
        f"The model did not write a valid script after two attempts: {problems}", model_usage=writing.usage
    )
