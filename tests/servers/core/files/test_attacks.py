"""Whatever the path of a call is, no byte from outside the roots is answered and no path outside is named."""

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.servers.core.files.attacks import ATTACKS, hostile_tree
from tests.servers.core.files.place import Place

REFUSED = {"forbidden_path", "not_found", "not_text", "invalid_parameter"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(hostile_tree(tmp_path_factory.mktemp("hostile")))


@pytest.mark.requirement("C-05")
@pytest.mark.parametrize("number", range(len(ATTACKS)))
async def test_a_known_attack_is_refused(place: Place, number: int) -> None:
    path = ATTACKS[number].format(root=place.root, outside=place.root.parent / "outside")[:4096]
    answer = await place.ask(path)
    assert answer["status"] == "error"
    assert answer["error"]["code"] in REFUSED


@pytest.mark.requirement("C-05")
async def test_a_path_outside_gives_the_same_error_whether_it_exists_or_not(place: Place) -> None:
    outside = place.root.parent / "outside"
    answers = [
        await place.ask(path)
        for path in (
            *("../outside/secret.txt", "../outside/none.txt", "../none/none.txt"),
            *(f"{outside}/secret.txt", f"{outside}/none.txt", "/none"),
            *("link_folder/secret.txt", "link_folder/none.txt", "dangling", "chain_1", "to_slash/none"),
        )
    ]
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["error"]["code"] == "forbidden_path"


@pytest.mark.parametrize(
    ("path", "real"),
    [
        ("readme.md", "readme.md"),
        ("inner", "docs/setup.md"),
        ("inner_folder/setup.md", "docs/setup.md"),
        ("inner_folder/../readme.md", "readme.md"),
        ("docs/inner_absolute", "readme.md"),
        ("docs/deep/far", "docs/setup.md"),
        ("docs/up/readme.md", "readme.md"),
        ("docs/up/docs/up/docs/up/readme.md", "readme.md"),
        ("through/../setup.md", "docs/setup.md"),
        ("docs/..x/...", "docs/..x/..."),
        ("docs//./setup.md", "docs/setup.md"),
    ],
)
async def test_links_and_dots_that_stay_inside_are_followed(place: Place, path: str, real: str) -> None:
    answer = await place.ask(path)
    assert answer["data"] == {"path": real, "content": "inside"}


NAMES = ["..", "..", ".", "", "docs", "deep", "outside", "root", "root-twin", "secret.txt", "readme.md", "setup.md"]
LINKS_OUT = ["link_folder", "link_file", "absolute_folder", "up", "up_again", "to_parent", "to_slash", "to_proc"]
LINKS_IN = ["inner", "inner_folder", "inner_absolute", "far", "through", "out_and_in", "loop_a", ".env", ".git", "..x"]
PARTS = st.one_of(
    st.sampled_from(NAMES),
    st.sampled_from(LINKS_OUT),
    st.sampled_from(LINKS_IN),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="{}"), max_size=6),
)
PATHS = st.builds(
    lambda start, parts, end: start + "/".join(parts) + end,
    st.sampled_from(["", "", "", "/", "//", "{root}/", "{root}/../", "{outside}/", "./"]),
    st.lists(PARTS, min_size=1, max_size=8),
    st.sampled_from(["", "", "", "/", "/.", "/.."]),
)


LEADING_OUT = {"..", "out_and_in", "to_parent", "to_slash", "to_proc", "up_again", ".env", ".git"}


@pytest.mark.requirement("C-05")
@settings(phases=[Phase.explicit, Phase.generate])
@example("docs/up/inner")
@given(PATHS)
async def test_any_path_shows_a_file_inside_or_is_refused(place: Place, template: str) -> None:
    path = template.format(root=place.root, outside=place.root.parent / "outside")
    answer = await place.ask(path)
    relative = "\0" not in path and not path.startswith("/")
    if answer["status"] == "success":
        assert answer["data"]["content"] == "inside"
        assert place.real(answer["data"]["path"]) == answer["data"]["path"]
        assert not relative or place.real(path) == answer["data"]["path"]
    else:
        assert answer["error"]["code"] in REFUSED
        # What the kernel finds without having left the root on the way is there.
        assert not relative or LEADING_OUT & set(path.split("/")) or place.real(path) is None
