"""Decide which events of a thread one subscription is sent (langgraph_api.md section 7)."""

from collections.abc import Sequence
from dataclasses import dataclass

from toolweave.runtime.protocol.modes import EVERYTHING, NAMED
from toolweave.runtime.protocol.thread_event import Namespace, ThreadEvent


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The channels, namespace prefixes (none: all) and levels below a prefix (None: all) that are asked for."""

    channels: frozenset[str]
    namespaces: tuple[Namespace, ...] = ()
    depth: int | None = None

    def shows(self, event: ThreadEvent) -> bool:
        """Say whether an event is sent."""
        if event.channel not in self.channels and not (event.channel.startswith(NAMED) and "custom" in self.channels):
            return False
        if event.detail and self.channels >= EVERYTHING:
            return False
        return not self.namespaces or any(self._reaches(event.namespace, prefix) for prefix in self.namespaces)

    def _reaches(self, namespace: Namespace, prefix: Namespace) -> bool:
        if not _begins_with(namespace, prefix):
            return False
        return self.depth is None or len(namespace) - len(prefix) <= self.depth


def _begins_with(namespace: Namespace, prefix: Sequence[str]) -> bool:
    """Compare step by step; a prefix step without a task id stands for all tasks of that name."""
    return len(prefix) <= len(namespace) and all(
        step == wanted or (":" not in wanted and step.partition(":")[0] == wanted)
        for step, wanted in zip(namespace, prefix, strict=False)
    )
