"""Hold a chat model, or the recipe for one, that is followed on first use."""

import asyncio
import threading
from collections.abc import Callable
from weakref import WeakKeyDictionary

from langchain_core.language_models import BaseChatModel


class LazyChatModel:
    """Build the model when it is first needed, once per event loop; a failed build is tried again next time.

    HTTP clients are bound to the loop they were first used on, and servers may run graphs on several.
    """

    def __init__(self, build: Callable[[], BaseChatModel]) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._models: WeakKeyDictionary[asyncio.AbstractEventLoop, BaseChatModel] = WeakKeyDictionary()

    async def get(self) -> BaseChatModel:
        """Return this loop's model; it is built off the loop, because making a client reads certificates."""
        loop = asyncio.get_running_loop()
        model = self._models.get(loop)
        return await asyncio.to_thread(self._built_for, loop) if model is None else model

    def _built_for(self, loop: asyncio.AbstractEventLoop) -> BaseChatModel:
        with self._lock:
            if loop not in self._models:
                self._models[loop] = self._build()
            return self._models[loop]


ChatModel = BaseChatModel | Callable[[], BaseChatModel] | LazyChatModel
"""What graphs take as their model."""


def as_lazy(model: ChatModel) -> LazyChatModel:
    """Wrap a model or a recipe; a LazyChatModel is returned as it is, so that graphs can share one."""
    if isinstance(model, LazyChatModel):
        return model
    return LazyChatModel((lambda: model) if isinstance(model, BaseChatModel) else model)
