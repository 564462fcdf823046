"""Ask the model for a script, its repair, and notes of an article's parts; all model calls of scripts are made here."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from toolweave.errors import ConfigError, ModelError, ScriptFailed
from toolweave.nodes.asking import ask_for_choice
from toolweave.nodes.chat_model_source import LazyChatModel
from toolweave.nodes.model_turn import answer_status
from toolweave.nodes.model_usage import ModelUsage, model_name, model_usage
from toolweave.nodes.script.writing import prompts
from toolweave.nodes.script.writing.material import Block
from toolweave.nodes.script.writing.script_plan import ScriptPlan
from toolweave.nodes.script.writing.writing_state import Draft

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
