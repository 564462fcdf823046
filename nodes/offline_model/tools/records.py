"""Find the things in a tool's result: whatever has an id, with the text that names it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from toolweave.nodes.offline_model.language.words import shared, stems

_ID_KEYS = ("id", "uuid", "key", "number", "identifier")
_TITLE_KEYS = ("title", "name", "subject", "summary", "headline", "label", "text", "content", "message", "path", "url")
_MAX_DEPTH = 6
_MAX_RECORDS = 500


@dataclass(frozen=True)
class Record:
    """One thing of a result: `data` is the object it was read from."""

    id: int | str
    title: str
    data: Mapping[str, Any] = field(compare=False, hash=False)

    def describes(self, wanted: Sequence[str]) -> float:
        """Give the share of the wanted stems that this record has, in its title or in its other texts."""
        if not wanted:
            return 0.0
        in_title = shared(wanted, stems(self.title))
        everywhere = shared(wanted, [*stems(self.title), *(word for text in _texts(self.data) for word in stems(text))])
        return (in_title + 0.5 * max(0, everywhere - in_title)) / len(set(wanted))


def find_records(data: object) -> list[Record]:
    """List the records of a result in order, at whatever depth they stand; nested ones belong to their owner."""
    return list(_walk(data, 0))[:_MAX_RECORDS]


def _walk(data: object, depth: int) -> Iterator[Record]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(data, Mapping):
        record = _record(data)
        if record:
            yield record
        else:
            for value in data.values():
                yield from _walk(value, depth + 1)
    elif isinstance(data, list):
        for value in data[:_MAX_RECORDS]:
            yield from _walk(value, depth + 1)


def _record(data: Mapping[str, Any]) -> Record | None:
    named = (name for name in data if name.lower().endswith(("_id", "id")) and "cursor" not in name)
    key = next((name for name in _ID_KEYS if name in data), None) or next(named, None)
    value = data.get(key) if key else None
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        return None
    title = next((data[name] for name in _TITLE_KEYS if isinstance(data.get(name), str) and data[name]), "")
    return Record(value, title, data)


def _texts(data: Mapping[str, Any]) -> Iterator[str]:
    for value in data.values():
        if isinstance(value, str) and len(value) < 2000:
            yield value
        elif isinstance(value, list):
            yield from (item for item in value[:50] if isinstance(item, str))


@dataclass(frozen=True)
class Match:
    """What a phrase fits: one record that is surely meant, or several that may be."""

    sure: Record | None
    possible: tuple[Record, ...] = ()


# Half of the words may fit by chance ("flight to Paris", "Book flight to Lisbon"): then the user is asked.
_SURE = 0.6


def match_records(phrase: str, wanted: Sequence[str], records: Sequence[Record]) -> Match:
    """Find the record that a phrase names; equal titles, or equally good ones, are left to the user."""
    flat = " ".join(phrase.lower().split())
    exact = [record for record in records if " ".join(record.title.lower().split()) == flat]
    if len(exact) == 1:
        return Match(exact[0])
    if exact:
        return Match(None, tuple(exact))
    scored = [(record.describes(wanted), record) for record in records]
    best = max((score for score, _ in scored), default=0.0)
    if best <= 0.25:
        return Match(None)
    top = [record for score, record in scored if score == best]
    if len(top) == 1 and best >= _SURE:
        return Match(top[0])
    return Match(None, tuple(top))
