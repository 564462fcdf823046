"""The choice among a shop's imported operations, on instructions that were listed before the rules existed."""

from pathlib import Path

import pytest

from tests.nodes.offline_model.operations.instructions import ADDED, LISTED, instructions_of, read_instructions
from tests.nodes.offline_model.operations.judging import Verdict, judge, shares, shop_operations
from toolweave.nodes import offline_model


@pytest.fixture(scope="module")
def held_verdicts() -> list[Verdict]:
    return [judge(one) for one in instructions_of("held")]


def test_more_than_85_of_100_held_back_instructions_are_chosen_and_filled_right(held_verdicts: list[Verdict]) -> None:
    counted = shares(held_verdicts)
    right, total = counted["overall"]

    assert len(shop_operations()) >= 12
    assert total >= 60
    assert right / total >= 0.88
    assert counted["chosen"][0] / counted["chosen"][1] >= 0.88


def test_what_must_be_refused_is_refused_and_nothing_made_up(held_verdicts: list[Verdict]) -> None:
    right, total = shares(held_verdicts)["refused"]

    assert total >= 14
    assert right / total >= 0.85


def test_what_was_tuned_on_stays_right() -> None:
    right, total = shares(judge(one) for one in instructions_of("tune"))["overall"]

    assert right / total >= 0.97


def test_no_listed_instruction_is_written_into_the_model() -> None:
    package = Path(next(iter(offline_model.__path__)))
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py")).lower()
    listed = [one.text.lower() for path in (LISTED, ADDED) for one in read_instructions(path) if len(one.text) > 28]

    assert len(listed) > 150
    assert [text for text in listed if text in source] == []


def test_both_halves_are_fixed_and_share_no_instruction() -> None:
    listed, added = read_instructions(LISTED), read_instructions(ADDED)
    texts = {one.text for one in listed}

    assert len(texts) == len(listed)
    assert not texts & {one.text for one in added}
    assert {half: sum(one.half == half for one in listed) for half in ("tune", "held")} == {"tune": 88, "held": 90}
    assert {one.tool for one in listed} == {None, *(tool.tool_id for tool in shop_operations())}
