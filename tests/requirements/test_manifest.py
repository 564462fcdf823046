"""Each requirement is planned or carried by a test that is not slow, and no test names one that does not exist."""

from tests.requirements.manifest import ALL_IDS, PLANNED
from tests.requirements.marks import mark_arguments


def carried(*, with_slow: bool = True) -> set[str]:
    """Return the ids of the requirements that tests carry."""
    return {requirement for ids in mark_arguments("requirement", with_slow=with_slow) for requirement in ids}


def test_every_requirement_is_carried_by_a_test_or_planned() -> None:
    assert sorted(ALL_IDS - carried(with_slow=False) - PLANNED.keys()) == []


def test_tests_name_only_requirements_that_exist() -> None:
    assert sorted(carried() - ALL_IDS) == []


def test_a_planned_requirement_is_not_claimed_yet() -> None:
    assert sorted(carried() & PLANNED.keys()) == []


def test_the_plan_names_only_requirements_that_exist() -> None:
    assert sorted(PLANNED.keys() - ALL_IDS) == []
