"""A chat model without a network: it says the last message again, word by word."""

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel, agenerate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from tests.fixtures.gated_app import pass_gate

GATE_MARK = "@"


class WordByWord(BaseChatModel):
    """Stream `prefix` and the words of the last message; at a word `@name` it waits at that gate and says nothing."""

    prefix: str

    @property
    def _llm_type(self) -> str:
        return "word-by-word"

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("It waits at gates, which takes an event loop.")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:  # noqa: ARG002
        return await agenerate_from_stream(self._astream(messages))

    async def _astream(
        self,
        messages: list[BaseMessage],
        *args: Any,  # noqa: ARG002 - BaseChatModel's signature
        **kwargs: Any,  # noqa: ARG002
    ) -> AsyncIterator[ChatGenerationChunk]:
        for number, word in enumerate((self.prefix, *messages[-1].text.split())):
            if word.startswith(GATE_MARK):
                await pass_gate(word.removeprefix(GATE_MARK))
            else:
                yield ChatGenerationChunk(message=AIMessageChunk(content=f" {word}" if number else word))
