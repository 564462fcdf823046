"""The offline model on natural requests that were listed before it existed; only the tune half was ever looked into."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nodes.offline_model.judging import calls_after_last_request, converse, shares
from tests.nodes.offline_model.requests import FOLDER, OPERATIONS, read_requests, requests_of
from tests.nodes.offline_model.todo_backend import seeded_backend
from toolweave.nodes import offline_model


@pytest.fixture(scope="module")
def held_shares() -> dict[str, tuple[int, int]]:
    return shares(requests_of("held"))


@pytest.mark.requirement("T-02")
@pytest.mark.requirement("O-01")
def test_nine_of_ten_held_back_requests_are_done_right(held_shares: dict[str, tuple[int, int]]) -> None:
    right, total = held_shares["overall"]

    assert total > 130
    assert right / total >= 0.9


@pytest.mark.requirement("T-02")
@pytest.mark.requirement("O-02")
@pytest.mark.parametrize("operation", [*OPERATIONS, "none"])
def test_each_kind_of_held_back_request_is_done_right_in_four_of_five(
    operation: str, held_shares: dict[str, tuple[int, int]]
) -> None:
    right, total = held_shares[operation]

    assert total >= 14
    assert right / total >= 0.8


@pytest.mark.slow
def test_requests_of_the_tune_half_stay_right_in_the_printed_figures(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "offline_accuracy.py"))["main"]()
    [tune, _held] = [line for line in capsys.readouterr().out.splitlines() if "overall" in line]

    assert float(tune.split()[-1].rstrip("%")) >= 97


@pytest.mark.requirement("T-02")
@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Add a task to buy milk", ("create_todo", {"title": "Buy milk"})),
        ("What are my active tasks?", ("list_todos", {"status": "active"})),
        (
            "Create a high-priority task for the dentist appointment",
            ("create_todo", {"title": "Dentist appointment", "priority": "high"}),
        ),
    ],
)
def test_the_requests_of_the_specification_lead_to_its_calls(text: str, call: tuple[str, dict[str, str]]) -> None:
    assert calls_after_last_request(converse([text], seeded_backend().tools())) == (call,)


@pytest.mark.requirement("O-04")
def test_no_listed_request_is_written_into_the_model() -> None:
    package = Path(next(iter(offline_model.__path__)))
    source = "\n".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py")).lower()
    listed = [request for path in sorted(FOLDER.glob("*.jsonl")) for request in read_requests(path)]
    # Short ones ("search for milk") are as short as the idioms that the rules are made of.
    long_texts = [request.text.lower() for request in listed if len(request.text) > 28]

    assert len(long_texts) > 200
    assert [text for text in long_texts if text in source] == []


@pytest.mark.requirement("O-04")
@settings(max_examples=40)
@given(
    st.lists(
        st.sampled_from(["blue", "green", "lamp", "tent", "river", "paper", "wood", "spoon", "carpet", "engine"]),
        min_size=1,
        max_size=4,
    )
)
def test_titles_that_no_list_holds_are_filled_as_well(words: list[str]) -> None:
    title = " ".join(words)

    messages = converse([f"Please add a task to paint the {title}"], seeded_backend().tools())

    assert calls_after_last_request(messages) == (("create_todo", {"title": f"Paint the {title}"}),)
