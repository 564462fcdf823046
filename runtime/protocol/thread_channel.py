"""Hand the events of one thread to everybody who listens, each what it asked for."""

from collections.abc import Callable

from toolweave.runtime.protocol.thread_event import ThreadEvent
from toolweave.runtime.streaming.channel import Channel, Subscription

Shows = Callable[[ThreadEvent], bool]


class ThreadChannel(Channel):
    """The live side of one thread; `last_seq` is the last number given out, `users` counts who needs it open."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(thread_id, id_prefix=None)
        self.last_seq = 0
        self.users = 0
        self._shows: dict[Subscription, Shows] = {}

    def hear(self, shows: Shows) -> Subscription:
        """Hear every event from now on that `shows` lets through."""
        subscription = self.listen()
        if not self.closed:
            self._shows[subscription] = shows
        return subscription

    def deliver(self, event: ThreadEvent) -> None:
        """Hand an event to those who asked for it; one too far behind is ended instead of it."""
        heard = event.logged()
        for subscription, shows in tuple(self._shows.items()):
            if shows(event):
                subscription.push(heard)

    def leave(self, subscription: Subscription) -> None:
        """Forget a listener."""
        super().leave(subscription)
        self._shows.pop(subscription, None)

    def close(self) -> None:
        """End all listeners after what they have queued."""
        super().close()
        self._shows.clear()
