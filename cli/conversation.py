"""Hold a chat with an assistant on one thread of a running server."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from toolweave.api.routes.chat_events import ChatEvent, ChatEvents
from toolweave.cli.chat import Transcript

Status = Literal["answered", "interrupted", "failed"]
ENDS: dict[str, Status] = {"message": "answered", "error": "failed"}


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended; `interrupts` are the questions that the run waits for."""

    status: Status
    interrupts: tuple[dict[str, Any], ...] = ()


class Conversation:
    """Turns on one thread, shown as they stream; the thread is made with the first turn."""

    def __init__(self, client: LangGraphClient, assistant: str, thread_id: str, transcript: Transcript) -> None:
        self.thread_id = thread_id
        self._client = client
        self._assistant = assistant
        self._transcript = transcript

    async def pending(self) -> tuple[dict[str, Any], ...]:
        """Give the questions that the thread already waits for; none for a thread that does not exist."""
        try:
            thread = await self._client.threads.get(self.thread_id)
        except NotFoundError:
            return ()
        return tuple(dict(item) for items in (thread.get("interrupts") or {}).values() for item in items)

    async def say(self, message: str) -> TurnEnd:
        """Send a message and show the turn."""
        return await self._turn(input={"messages": [{"role": "user", "content": message}]})

    async def resume(self, answer: Any) -> TurnEnd:
        """Answer what the run waits for and show how it goes on."""
        return await self._turn(command={"resume": answer})

    async def _turn(self, **given: Any) -> TurnEnd:
        events = ChatEvents(self.thread_id, resumes="command" in given)
        end = TurnEnd("failed")
        # Read to the stream's end: leaving earlier would cancel a run that is just being stored.
        async for part in self._client.runs.stream(
            self.thread_id,
            self._assistant,
            **given,
            stream_mode=["messages-tuple", "updates"],
            if_not_exists="create",
            multitask_strategy="enqueue",
            on_disconnect="cancel",
        ):
            if not events.ended:
                end = self._shown(events.translate(part.event, part.data)) or end
        if not events.ended:
            end = self._shown(events.finish()) or end
        return end

    def _shown(self, events: Iterable[ChatEvent]) -> TurnEnd | None:
        """Show events and give the end of the turn if they hold it."""
        end = None
        for name, data in events:
            self._transcript.show(name, data)
            if name == "interrupt":
                end = TurnEnd("interrupted", tuple(data["interrupts"]))
            elif name in ENDS:
                end = TurnEnd(ENDS[name])
        return end
