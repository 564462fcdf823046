"""Build the documentation into site/ and check every link of it: `make docs`.

zensical fails on links to absent pages. `problems_of` also finds absent files, images and anchors, pages without an
entry in the navigation, and scripts, styles, fonts or images that a browser would load from another host.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
DOCS, CONFIGURATION = ROOT / "docs", ROOT / "zensical.toml"
REMOTE_IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""")
# Opened when a reader clicks, not loaded with the page.
LINKS = ("a", "area")


@dataclass
class Page(HTMLParser):
    """The targets and ids of a page; a target is the name of its element and a URL."""

    targets: list[tuple[str, str]] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        self.targets += [(tag, given[name]) for name in ("href", "src") if name in given]


def build(configuration: Path = CONFIGURATION) -> None:
    """Build the site beside a configuration.

    Raises:
        CalledProcessError: a link leads to an absent page.
    """
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(configuration)]
    subprocess.run(command, check=True)


def problems_of(site: Path) -> list[str]:
    """List what is wrong with a built site."""
    pages = {path.resolve(): _parsed(path) for path in sorted(site.rglob("*.html"))}
    found = [
        f"{path.relative_to(site.resolve())}: {problem}"
        for path, page in pages.items()
        for tag, target in page.targets
        for problem in _problems_of_target(path, tag, target, pages, site)
    ]
    styles = (path for path in site.rglob("*.css") if REMOTE_IN_STYLES.search(path.read_text(encoding="utf-8")))
    return [*found, *(f"{path.relative_to(site)}: loads from another host" for path in styles)]


def pages_without_navigation() -> set[str]:
    """Return the pages in docs/ itself, and its reference, that the navigation does not name."""
    sections = tomllib.loads(CONFIGURATION.read_text(encoding="utf-8"))["project"]["nav"]
    named = {page for section in sections for pages in section.values() for page in pages}
    present = {
        path.relative_to(DOCS).as_posix() for pattern in ("*.md", "reference/*.md") for path in DOCS.glob(pattern)
    }
    return present - named


def _parsed(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _problems_of_target(path: Path, tag: str, target: str, pages: dict[Path, Page], site: Path) -> Iterator[str]:
    url = urlsplit(target)
    if url.scheme or url.netloc:
        if tag not in LINKS and url.scheme != "data":
            yield f"<{tag}> loads {target} from another host"
        return
    # The page for unknown addresses is served at any depth: its addresses begin at the root.
    base = site.resolve() if url.path.startswith("/") else path.parent
    file = (base / unquote(url.path).lstrip("/")).resolve() if url.path else path
    file = file / "index.html" if file.is_dir() else file
    if not file.is_file():
        yield f"{target} does not exist"
    elif url.fragment and file in pages and unquote(url.fragment) not in pages[file].ids:
        yield f"{target} has no such anchor"


def main() -> int:
    build()
    problems = problems_of(ROOT / "site") + [
        f"{name}: zensical.toml does not name it" for name in pages_without_navigation()
    ]
    print("\n".join(problems) or f"The site is in {ROOT / 'site'}")
    return min(len(problems), 1)


if __name__ == "__main__":
    sys.exit(main())
