"""Read what a page says of itself: title, language, site, and whether everybody may read it (A-04)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from toolweave.nodes.script.reading.html_tree import HtmlElement

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_ARTICLES = ("Article", "BlogPosting", "WebPage", "Report", "Recipe", "Review", "CreativeWork")
_NO = (False, "false", "False", "http://schema.org/False", "https://schema.org/False")
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page says of itself; `base` is what its relative addresses refer to, `body` an article in its data."""

    url: str
    base: str
    title: str
    site: str
    language: str
    free: bool
    body: str


def facts_of(tree: HtmlElement, url: str) -> PageFacts:
    """Read the head and the linked data of a page."""
    articles = [node for node in _linked_data(tree) if _is_article(node)]
    bodies = [text for node in articles if isinstance(text := node.get("articleBody"), str)]
    languages = [text for node in articles if isinstance(text := node.get("inLanguage"), str)]
    return PageFacts(
        url=url,
        base=_base(tree, url),
        title=_title(tree, articles) or urlsplit(url).netloc,
        site=_meta(tree, "og:site_name") or urlsplit(url).hostname or "",
        language=_language(tree, languages),
        free=not any(node.get("isAccessibleForFree") in _NO for node in articles),
        body=max(bodies, key=len, default="").strip(),
    )


def _base(tree: HtmlElement, url: str) -> str:
    given = next(iter(tree.xpath("//base/@href")), "")
    try:
        joined = urljoin(url, given)
    except ValueError:
        return url
    return joined if joined.startswith(("http://", "https://")) else url


def _title(tree: HtmlElement, articles: list[dict[str, Any]]) -> str:
    headings = [text for h1 in tree.iter("h1") if (text := _plain(h1.text_content()).strip(" ¶#"))]
    written = _plain(tree.findtext(".//title"))
    named = [text for text in (_meta(tree, "og:title"), *(_plain(node.get("headline")) for node in articles)) if text]
    for heading in headings:
        # A heading may hold a kicker besides, the other names the site's.
        inside = next((name for name in named if name in heading), None)
        if inside or heading in written or any(heading in name for name in named):
            return inside or heading
    return next(iter(named), "") or (headings[0] if len(headings) == 1 else written)


def _language(tree: HtmlElement, languages: list[str]) -> str:
    told = [
        tree.get("lang"),
        next(iter(tree.xpath("//*[@http-equiv='content-language' or @http-equiv='Content-Language']/@content")), ""),
        _meta(tree, "og:locale"),
        *languages,
        next(iter(tree.xpath("(//article|//main|//body)/@lang")), ""),
    ]
    for language in told:
        if language and _LANGUAGE.fullmatch(language.strip()):
            return str(language).strip().replace("_", "-")
    return ""


def _meta(tree: HtmlElement, name: str) -> str:
    found = tree.xpath("//meta[@property=$name or @name=$name]/@content", name=name)
    return _plain(found[0]) if found else ""


def _linked_data(tree: HtmlElement) -> Iterator[dict[str, Any]]:
    for script in tree.xpath("//script[@type='application/ld+json']"):
        try:
            yield from _nodes(json.loads(script.text_content(), strict=False), 0)
        except (ValueError, RecursionError):
            continue


def _nodes(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            yield from _nodes(inner, depth + 1)


def _is_article(node: dict[str, Any]) -> bool:
    return any(name in str(node.get("@type", "")) for name in _ARTICLES)


def _plain(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""
