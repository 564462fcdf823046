"""The documentation becomes a site without broken links, and without anything from another host."""

import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.docs_site import CONFIGURATION, DOCS, build, pages_without_navigation, problems_of


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Copy the sources of the site; return their folder."""
    shutil.copy(CONFIGURATION, tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    return tmp_path


def test_the_site_is_complete_and_loads_nothing_from_another_host(copied: Path) -> None:
    build(copied / CONFIGURATION.name)
    assert problems_of(copied / "site") == []
    assert {"index.html", "studio.html", "comparison.html"} <= {path.name for path in (copied / "site").iterdir()}
    assert pages_without_navigation() == set()


def test_a_link_to_an_absent_page_fails_the_build(copied: Path) -> None:
    with (copied / "docs" / "concepts.md").open("a", encoding="utf-8") as page:
        page.write("\n[nowhere](nowhere.md)\n")
    with pytest.raises(subprocess.CalledProcessError):
        build(copied / CONFIGURATION.name)


def test_absent_files_and_anchors_and_scripts_of_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">.</a><a href="b.html#gone">.</a><a href="https://example.org">.</a>'
        '<img src="picture.png"><script src="https://cdn.example.org/x.js"></script>',
        encoding="utf-8",
    )
    (tmp_path / "b.html").write_text('<p id="there">.</p>', encoding="utf-8")
    (tmp_path / "c.css").write_text("@import url(//fonts.example.org/a.css);", encoding="utf-8")
    assert problems_of(tmp_path) == [
        "a.html: b.html#gone has no such anchor",
        "a.html: picture.png does not exist",
        "a.html: <script> loads https://cdn.example.org/x.js from another host",
        "c.css: loads from another host",
    ]
