"""When a model recipe is followed."""

import asyncio

from langchain_core.language_models import BaseChatModel

from tests.fixtures.scripted_model import ScriptedModel
from toolweave.nodes.chat_models import LazyChatModel, as_lazy_chat_model


def test_a_recipe_is_followed_once_per_event_loop_however_many_ask() -> None:
    made: list[ScriptedModel] = []

    def make() -> ScriptedModel:
        made.append(ScriptedModel(turns=[]))
        return made[-1]

    async def ask_at_once() -> set[int]:
        models: list[BaseChatModel] = await asyncio.gather(*(lazy.get() for _ in range(20)))
        return {id(model) for model in models}

    lazy = as_lazy_chat_model(make)

    assert [asyncio.run(ask_at_once()) for _ in range(2)] == [{id(model)} for model in made]
    assert len(made) == 2


async def test_a_model_is_used_as_it_is_and_a_lazy_one_is_not_wrapped_again() -> None:
    model = ScriptedModel(turns=[])
    lazy = as_lazy_chat_model(model)

    assert await lazy.get() is model
    assert as_lazy_chat_model(lazy) is lazy
    assert isinstance(lazy, LazyChatModel)
