"""Ask a model for a choice or a text, whatever its endpoint knows of functions and of counting tokens (W-10)."""

import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import TAG_NOSTREAM

from toolweave.errors import ModelError
from toolweave.nodes.model_turn import ModelRunnable, model_turn

_OF_FUNCTIONS = re.compile(
    r"\b(tools?|tool_choice|functions?|function_declarations|schema|grammar|jinja)\b", re.IGNORECASE
)
_REFUSALS = frozenset({400, 404, 422, 500, 501})


async def ask_for_choice(
    model: BaseChatModel,
    function: dict[str, Any],
    prompt: Sequence[AnyMessage],
    plain_prompt: Sequence[AnyMessage],
    config: RunnableConfig,
) -> AIMessage:
    """Bind an OpenAI function that must be called; a model or endpoint that refuses it gets `plain_prompt` alone.

    Nothing of this reaches the "messages" stream: a choice is no message for the user.

    Raises:
        ModelError: the model failed.
    """
    hidden = RunnableConfig(tags=[TAG_NOSTREAM])
    try:
        # "any" is what the ways of demanding a call have in common. with_structured_output would send
        # parallel_tool_calls, too, which not every endpoint takes.
        bound = model.bind_tools([function], tool_choice="any")
        return await _counted(model, bound.with_config(hidden), prompt, config)
    except NotImplementedError:
        pass
    except ModelError as error:
        if not _refuses_functions(error):
            raise
    return await _counted(model, model.with_config(hidden), plain_prompt, config)


async def ask_for_text(model: BaseChatModel, prompt: Sequence[AnyMessage], config: RunnableConfig) -> AIMessage:
    """Ask for an answer that streams through `config`.

    Raises:
        ModelError: the model failed.
    """
    return await _counted(model, model, prompt, config)


async def _counted(
    model: BaseChatModel, asked: ModelRunnable, prompt: Sequence[AnyMessage], config: RunnableConfig
) -> AIMessage:
    """Ask for the tokens, too: LangChain does it for OpenAI's own endpoint only, and some know no such option."""
    if "stream_usage" not in type(model).model_fields:
        return await model_turn(asked, prompt, config)
    try:
        return await model_turn(asked.bind(stream_usage=True), prompt, config)
    except ModelError as error:
        if error.status not in _REFUSALS or "stream_options" not in str(error):
            raise
    return await model_turn(asked, prompt, config)


def _refuses_functions(error: ModelError) -> bool:
    detail = str(error).partition("It said:")[2]
    return error.status in _REFUSALS and bool(_OF_FUNCTIONS.search(detail))
