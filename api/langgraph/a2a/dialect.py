"""Speak both revisions of A2A: they differ in method names and in the words for roles and states."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

State = Literal["submitted", "working", "input-required", "completed", "canceled", "failed"]
TERMINAL: frozenset[State] = frozenset({"completed", "canceled", "failed"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """One revision: what it puts before roles and states; since 1.0 an answer names the task it holds."""

    role_prefix: str = ""
    state_prefix: str = ""
    names_task: bool = False

    def role(self, *, user: bool) -> str:
        """Say who speaks."""
        word = "user" if user else "agent"
        return f"{self.role_prefix}{word.upper()}" if self.role_prefix else word

    def state(self, state: State) -> str:
        """Say how a task stands."""
        return f"{self.state_prefix}{state.upper().replace('-', '_')}" if self.state_prefix else state

    def task_answer(self, task: object) -> object:
        """Wrap a task that answers a message."""
        return {"task": task} if self.names_task else task


EARLIER = Dialect()
FIRST = Dialect("ROLE_", "TASK_STATE_", names_task=True)

Operation = Literal["send", "stream", "get", "cancel", "list"]
METHODS: Mapping[str, tuple[Operation, Dialect]] = {
    "message/send": ("send", EARLIER),
    "message/stream": ("stream", EARLIER),
    "tasks/get": ("get", EARLIER),
    "tasks/cancel": ("cancel", EARLIER),
    "SendMessage": ("send", FIRST),
    "SendStreamingMessage": ("stream", FIRST),
    "GetTask": ("get", FIRST),
    "CancelTask": ("cancel", FIRST),
    "ListTasks": ("list", FIRST),
}
USER_ROLES = frozenset({"user", "ROLE_USER"})
