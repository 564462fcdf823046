"""Give images their sources, and keep their captions, which lie beside them in many ways (A-04)."""

import re
from urllib.parse import urljoin

from toolweave.nodes.script.page import PageImage
from toolweave.nodes.script.reading.html_tree import HtmlElement

_LAZY = ("data-src", "data-lazy-src", "data-original", "data-lazy", "data-url", "src")
_LAZY_SETS = ("data-srcset", "data-lazy-srcset", "srcset")
_NUMBERED = re.compile(r"!\[(?:[^\]\\]|\\.)*\]\(https://image\.invalid/(\d+)\.png\)")
# Pixels that count visitors.
_TINY = ("0", "1", "2")


class NumberedImages:
    """Give every image of a tree a number for its source, since sources of all forms must come through."""

    def __init__(self, tree: HtmlElement, base: str) -> None:
        self._images: list[PageImage] = []
        self._shown: list[int] = []
        self._base = base
        seen: set[str] = set()
        for image in list(tree.iter("img")):
            src = self._source(image)
            doubled = any(ancestor.tag == "noscript" for ancestor in image.iterancestors()) and src in seen
            if not src or doubled or image.get("width") in _TINY or image.get("height") in _TINY:
                image.drop_tree()
                continue
            seen.add(src)
            self._number(image, src)

    @property
    def shown(self) -> list[PageImage]:
        """List the images that are in the article, in its order."""
        return [self._images[number] for number in self._shown]

    def put_back(self, markdown: str) -> str:
        """Write the images of an article as they are."""
        self._shown = []
        return _NUMBERED.sub(self._written, markdown)

    def _written(self, found: re.Match[str]) -> str:
        number = int(found[1])
        self._shown.append(number)
        image = self._images[number]
        alt = image["alt"].replace("[", "(").replace("]", ")")
        caption = image["caption"].replace('"', "'")
        title = f' "{caption}"' if caption else ""
        return f"![{alt}]({image['src']}{title})"

    def _source(self, image: HtmlElement) -> str:
        given = [image.get(name) or "" for name in _LAZY]
        given += [(image.get(name) or "").split(",")[0].strip().split(" ")[0] for name in _LAZY_SETS]
        for source in given:
            try:
                joined = urljoin(self._base, source.strip()) if source.strip() else ""
            except ValueError:
                continue
            if joined.startswith(("http://", "https://")):
                return joined.replace(" ", "%20").replace("(", "%28").replace(")", "%29")
        return ""

    def _number(self, image: HtmlElement, src: str) -> None:
        number = len(self._images)
        self._images.append(PageImage(alt=_plain(image.get("alt")), caption=_caption(image), src=src))
        image.attrib.clear()
        image.set("src", f"https://image.invalid/{number}.png")


def _caption(image: HtmlElement) -> str:
    around = next((ancestor for ancestor in image.iterancestors("figure")), None)
    if around is None:
        around = next((each for each in image.iterancestors("div") if "wp-caption" in (each.get("class") or "")), None)
    if around is None:
        return _plain(image.get("title"))
    for caption in around.xpath(".//figcaption|.//*[contains(@class, 'wp-caption-text')]"):
        text = _plain(caption.text_content())
        if around.tag != "figure":
            caption.drop_tree()
        return text
    return ""


def _plain(text: str | None) -> str:
    return " ".join((text or "").split())
