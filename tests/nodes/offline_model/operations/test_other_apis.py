"""The choice among the operations of APIs that the model's rules were not written for."""

from pathlib import Path

import pytest

from tests.nodes.offline_model.operations.judging import Verdict, choose, judge, shares
from tests.nodes.offline_model.operations.other_apis import (
    ADDED_FOR_OTHERS,
    OTHER_APIS,
    TUNE_ONLY,
    added_for,
    instructions_for,
    listed_for,
)
from toolweave.nodes import offline_model


@pytest.fixture(scope="module")
def held_verdicts() -> dict[str, list[Verdict]]:
    return {api: [judge(one, tools) for one in instructions_for(api, "held")] for api, tools in OTHER_APIS.items()}


def test_at_least_80_of_100_held_back_instructions_for_other_apis_are_right(
    held_verdicts: dict[str, list[Verdict]],
) -> None:
    counted = shares(verdict for verdicts in held_verdicts.values() for verdict in verdicts)
    right, total = counted["overall"]

    assert total >= 100
    assert right / total >= 0.8
    assert counted["chosen"][0] / counted["chosen"][1] >= 0.78


@pytest.mark.parametrize("api", OTHER_APIS)
def test_no_other_api_is_far_behind(api: str, held_verdicts: dict[str, list[Verdict]]) -> None:
    right, total = shares(held_verdicts[api])["overall"]

    assert total >= 20
    assert right / total >= 0.7


def test_what_must_be_refused_for_other_apis_is_refused(held_verdicts: dict[str, list[Verdict]]) -> None:
    right, total = shares(verdict for verdicts in held_verdicts.values() for verdict in verdicts)["refused"]

    assert total >= 25
    assert right / total >= 0.75


def test_what_was_tuned_on_for_other_apis_stays_right() -> None:
    verdicts = [
        judge(one, tools) for api, tools in (OTHER_APIS | TUNE_ONLY).items() for one in instructions_for(api, "tune")
    ]
    right, total = shares(verdicts)["overall"]

    assert right / total >= 0.96


def test_no_instruction_for_other_apis_is_written_into_the_model() -> None:
    package = Path(next(iter(offline_model.__path__)))
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py")).lower()
    texts = [one.text.lower() for api in OTHER_APIS | TUNE_ONLY for one in (*listed_for(api), *added_for(api))]
    long = [text for text in texts if len(text) > 24]

    assert len(long) > 150
    assert [text for text in long if text in source] == []


def test_the_lists_for_other_apis_are_fixed_and_name_every_operation() -> None:
    halves = {api: [one.half for one in listed_for(api)] for api in OTHER_APIS}
    added = {one.text for api in OTHER_APIS | TUNE_ONLY for one in added_for(api)}

    assert {api: (both.count("tune"), both.count("held")) for api, both in halves.items()} == {
        "library": (22, 26),
        "meetings": (25, 23),
        "tracker": (22, 29),
        "places": (26, 23),
    }
    assert len(added) == len(ADDED_FOR_OTHERS.read_text(encoding="utf-8").splitlines())
    for api, tools in OTHER_APIS.items():
        assert {one.tool for one in listed_for(api)} == {None, *(tool.tool_id for tool in tools)}
        assert not added & {one.text for one in listed_for(api)}


@pytest.mark.parametrize(
    ("api", "text", "placed"),
    [
        ("library", "Find books printed in Oslo", "Oslo"),
        ("library", "Show book 3 in Icelandic", "Icelandic"),
        ("meetings", "Find rooms with a coffee machine", "coffee"),
        ("meetings", "Find rooms for 4 people on Friday", "on Friday"),
        ("tracker", "List the projects of last month", "last month"),
        ("music", "Find concerts in Berlin with free entry", "free"),
    ],
)
def test_what_no_argument_took_is_named_in_the_refusal(api: str, text: str, placed: str) -> None:
    written = choose(text, (OTHER_APIS | TUNE_ONLY)[api])

    assert written.keys() == {"reason"}
    assert "I could not place" in written["reason"]
    assert f"'{placed}'" in written["reason"]


@pytest.mark.parametrize(
    ("said", "start", "end"),
    [
        ("at 15:00", "15:00", None),
        ("at 3 pm", "15:00", None),
        ("at 12 am", "00:00", None),
        ("at noon", "12:00", None),
        ("at 9", "09:00", None),
        ("at half past 4", "16:30", None),
        ("at quarter to nine", "08:45", None),
        ("at 3 o'clock", "15:00", None),
        ("from 9:15 to 10:45", "09:15", "10:45"),
        ("from 2 to 4 pm", "14:00", "16:00"),
        ("10:00-11:30", "10:00", "11:30"),
        ("at 8.30 until 9.45", "08:30", "09:45"),
    ],
)
def test_times_of_day_are_read(said: str, start: str, end: str | None) -> None:
    written = choose(f"Book room Aurora tomorrow {said}", OTHER_APIS["meetings"])

    wanted = {"room": "Aurora", "date": "2026-03-05", "start_time": start} | ({"end_time": end} if end else {})
    assert written == {"tool_id": "book_room", "arguments": wanted}


@pytest.mark.parametrize("said", ["at 25:00", "at 10:75", "at 13 pm"])
def test_what_is_no_time_of_day_is_not_taken(said: str) -> None:
    assert choose(f"Book room Aurora tomorrow {said}", OTHER_APIS["meetings"]).keys() == {"reason"}


def test_a_name_goes_to_the_parameter_that_its_preposition_points_to() -> None:
    places, library = OTHER_APIS["places"], OTHER_APIS["library"]

    assert choose("Route to Ghent from Bruges", places)["arguments"] == {"origin": "Bruges", "destination": "Ghent"}
    assert choose("Route from Ghent to Bruges", places)["arguments"] == {"origin": "Ghent", "destination": "Bruges"}
    assert choose("Lend book 2 to Ada", library)["arguments"] == {"book_id": 2, "reader": "Ada"}
    assert choose("Find books by Émile Zola", library)["arguments"] == {"author": "Émile Zola"}
