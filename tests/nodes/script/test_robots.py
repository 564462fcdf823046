"""A site's rules for programs are read as RFC 9309 has them."""

import pytest

from toolweave.nodes.script.fetching.fetch_plain import MAX_ROBOTS_CHARS, may_fetch


@pytest.mark.parametrize(
    ("robots", "path", "allowed"),
    [
        ("", "/x", True),
        ("Disallow: /", "/x", True),
        ("user-agent:*\nDISALLOW:/x # not this", "/x/y", False),
        ("User-agent: other\nUser-agent: Toolweave\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: toolweave\nAllow: /", "/x", True),
        (
            "User-agent: toolweave\nDisallow: /a\nUser-agent: *\nDisallow: /\nUser-agent: TOOLWEAVE\nDisallow: /b",
            "/b",
            False,
        ),
        ("User-agent: toolweave-news\nDisallow: /", "/x", True),
        ("User-agent: toolweave/1.0\nDisallow: /", "/x", False),
        ("User-agent: *\nDisallow: /\nAllow: /blog", "/blog/1", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /b%C3%BCcher", "/b%c3%bccher/1", False),
        ("User-agent: *\nDisallow: /a%2Fb", "/a/b", True),
        ("\ufeffUser-agent: *\nDisallow: /x", "/x", False),
    ],
)
def test_the_longest_rule_of_the_own_group_decides(robots: str, path: str, allowed: bool) -> None:
    assert may_fetch(robots, path, "Toolweave") is allowed


def test_rules_that_would_backtrack_are_compared() -> None:
    agents = "".join(f"User-agent: a{number}\n" for number in range(20_000))
    slow = "User-agent: *\n" + f"Disallow: /{'*a' * 4000}$\n" * 60

    assert max(len(slow), len(agents)) < MAX_ROBOTS_CHARS
    assert may_fetch(agents + "Disallow: /\n" * 10_000, "/x", "Toolweave")
    assert may_fetch(slow, "/" + "a" * 3999 + "b", "Toolweave")
    assert not may_fetch(slow, "/" + "a" * 4000, "Toolweave")
