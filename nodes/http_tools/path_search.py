"""Follow JSONPaths into the answers of APIs at a bounded cost, whatever the answer and the path are (W-06)."""

from collections.abc import Iterable, Iterator
from typing import Any

from jsonpath import JSONPath, JSONPathMatch
from jsonpath.segments import JSONPathRecursiveDescentSegment, JSONPathSegment
from jsonpath.selectors import Filter, JSONPathSelector

from toolweave.field_mappings import answer_path

MOST_STEPS = 200_000
"""What all paths into an answer may cost together: a few tenths of a second."""
MOST_RESULTS = 10_000
_CHARACTERS_OF_A_STEP = 4
_END = object()


class PathSearch:
    """Find what paths lead to in one answer; all of them share its steps.

    `complete` turns False when an answer has more than could be looked through or given.
    """

    def __init__(self, answer: Any) -> None:
        self.complete = True
        self._answer = answer
        self._steps = _Steps(MOST_STEPS)

    def find(self, path: str) -> Any:
        """Give the value, or None, for a path that can match only once, and a list for any other.

        What was found before the steps ran out is given all the same.
        """
        compiled = answer_path(path)
        found: list[Any] = []
        try:
            for node in self._nodes(compiled):
                if len(found) == MOST_RESULTS:
                    raise _TooManyError
                found.append(node.obj)
        except (_TooManyError, RecursionError):
            self.complete = False
        if compiled.singular_query():
            return found[0] if found else None
        return found

    def _nodes(self, path: JSONPath) -> Iterable[JSONPathMatch]:
        nodes: Iterable[JSONPathMatch] = [_Node(self._answer, self._answer, self._steps)]
        for segment in path.segments:
            nodes = self._selected(segment, nodes)
        return nodes

    def _selected(self, segment: JSONPathSegment, nodes: Iterable[JSONPathMatch]) -> Iterator[JSONPathMatch]:
        everywhere = isinstance(segment, JSONPathRecursiveDescentSegment)
        weighted = [(selector, _weight(selector)) for selector in segment.selectors]
        for node in nodes:
            for reached in self._containers(node) if everywhere else [node]:
                if isinstance(reached.obj, dict | list):
                    for selector, weight in weighted:
                        self._steps.take(1 + weight * len(reached.obj))
                        yield from selector.resolve(reached)

    def _containers(self, node: JSONPathMatch) -> Iterator[JSONPathMatch]:
        """Give a node and every object and list in it, each before what it holds, without recursion."""
        yield node
        left = [_values(node.obj)]
        while left:
            value = next(left[-1], _END)
            if value is _END:
                left.pop()
                continue
            self._steps.take(1)
            if isinstance(value, dict | list):
                yield _Node(value, self._answer, self._steps)
                left.append(_values(value))


class _TooManyError(Exception):
    pass


class _Steps:
    def __init__(self, most: int) -> None:
        self.left = most

    def take(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooManyError


class _Node(JSONPathMatch):
    """A match that counts steps, and keeps neither its path nor its children."""

    __slots__ = ("_steps",)

    def __init__(self, value: Any, answer: Any, steps: _Steps) -> None:
        super().__init__(filter_context={}, obj=value, parent=None, path="", parts=(), root=answer)
        self._steps = steps

    def new_child(self, obj: object, key: int | str) -> JSONPathMatch:  # noqa: ARG002 - the name is the library's
        self._steps.take(1)
        return _Node(obj, self.root, self._steps)

    def add_child(self, *children: JSONPathMatch) -> None:
        pass


def _values(value: Any) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _weight(selector: JSONPathSelector) -> int:
    """Say what a selector costs for each item: a filter's expression is evaluated, which takes as long as it is."""
    return 1 + len(str(selector)) // _CHARACTERS_OF_A_STEP if isinstance(selector, Filter) else 0
