"""Say which events of a run one connection is shown (langgraph_api.md sections 6.2 and 9.2)."""

from dataclasses import dataclass

from starlette.requests import Request

from toolweave.api.langgraph.request_values import query_words

# Of the run, not of a graph: what begins a stream, and how it failed.
OF_THE_RUN = frozenset({"metadata", "error"})


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The stream modes and the namespaces to show; an empty set shows all of them.

    A namespace is what follows the event's name: "" is the root graph, `child:<task id>` a subgraph, without the
    subgraphs that it starts.
    """

    modes: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def shows(self, event: str) -> bool:
        """Say whether an event of this name is shown; an `error` always is."""
        if not self.modes and not self.namespaces:
            return True
        name, _, namespace = event.partition("|")
        if self.namespaces and name not in OF_THE_RUN and namespace not in self.namespaces:
            return False
        return not self.modes or name == "error" or not self.modes.isdisjoint(_modes_of(name))


EVERYTHING = EventFilter()


def new_stream_filter(request: Request) -> EventFilter:
    """Read what a stream that is created with its run is limited to: `namespace`, repeated or a JSON list."""
    return EventFilter(namespaces=_namespaces(request))


def joined_stream_filter(request: Request) -> EventFilter:
    """Read what a joined stream is limited to: `stream_mode` and `namespace`, the union of all that are given."""
    return EventFilter(frozenset(query_words(request, "stream_mode")), _namespaces(request))


def _namespaces(request: Request) -> frozenset[str]:
    return frozenset(query_words(request, "namespace", keep_empty=True))


def _modes_of(name: str) -> tuple[str, ...]:
    if name == "messages":
        return ("messages", "messages-tuple")
    return (name.partition("/")[0],)
