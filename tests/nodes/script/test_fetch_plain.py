"""A page is fetched the plain way, as the outbound policy and robots.txt let us; failures say what to do (A-04)."""

import httpx
import pytest

from tests.fixtures.web_pages import Answer, WebPages, truth_of, web_pages
from toolweave.config.outbound_allow import allowed_targets
from toolweave.config.settings import Settings
from toolweave.errors import FetchFailed
from toolweave.nodes.script.fetching.fetch_plain import USER_AGENT, PlainFetch

HTML = {"content-type": "text/html; charset=utf-8"}
TEXT = {"content-type": "text/plain"}


# One for all: reading the certificates takes longer than most of the requests.
TRUST = httpx.create_ssl_context()


def fetch_of(seconds: float = 30.0) -> PlainFetch:
    return PlainFetch(allowed_targets("127.0.0.1"), seconds=seconds, trust=TRUST)


async def refusal(url: str, fetch: PlainFetch | None = None) -> str:
    with pytest.raises(FetchFailed) as raised:
        await (fetch or fetch_of()).fetch(url)
    message = str(raised.value)
    assert message.startswith("The page ")
    return message


async def assert_requested(url: str, fetch: PlainFetch | None = None) -> None:
    """Check that no rule forbids the request of a page, which the site does not have."""
    assert "404 Not Found" in await refusal(url, fetch)


async def test_a_page_is_fetched_with_our_user_agent_after_robots_txt(site: WebPages) -> None:
    page = await fetch_of().fetch(site.page("news.html"))

    assert page["title"] == truth_of("news.html")["title"]
    assert page["url"] == page["final_url"] == site.page("news.html")
    assert site.requests == ["/robots.txt", "/pages/news.html"]
    assert set(site.user_agents) == {USER_AGENT}
    assert USER_AGENT.startswith("Toolweave/")


async def test_a_redirect_is_followed_to_the_final_url(site: WebPages) -> None:
    page = await fetch_of().fetch(f"{site.url}/moved/wrong_meta.html?from=here#top")

    assert page["title"] == truth_of("wrong_meta.html")["title"]
    assert page["final_url"] == site.page("wrong_meta.html")
    assert site.requests.count("/robots.txt") == 1


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/loop", "redirects more than 5 times"),
        ("/broken", "broke off"),
        ("/huge", "larger than"),
        ("/status/401", "the site answered 401 Unauthorized. Check the URL, try again later, or let"),
        ("/status/599", "599. Check the URL"),
        ("/manual", "is application/pdf"),
        ("/elsewhere", "It redirects"),
        ("/files", "begin with http"),
    ],
)
async def test_a_failure_names_the_url_and_what_to_do(site: WebPages, path: str, problem: str) -> None:
    site.answers["/manual"] = Answer(b"%PDF-1.7 ...", {"content-type": "application/pdf"})
    site.answers["/elsewhere"] = Answer(headers={"location": "http://"}, status=302)
    site.answers["/files"] = Answer(headers={"location": "file:///etc/passwd"}, status=302)

    message = await refusal(f"{site.url}{path}")

    assert problem in message
    assert f"{site.url}{path}" in message


async def test_a_page_that_robots_txt_forbids_is_not_requested(site: WebPages) -> None:
    site.robots = "User-agent: *\nDisallow: /pages/\nAllow: /pages/none.html$\n"

    assert "does not allow programs to fetch it" in await refusal(site.page("news.html"))
    await assert_requested(site.page("none.html"))
    assert site.requests == ["/robots.txt", "/robots.txt", "/pages/none.html"]


async def test_a_redirect_to_what_robots_txt_forbids_is_not_followed(site: WebPages) -> None:
    site.robots = "User-agent: Toolweave/1.0\nDisallow: /pages\n\nUser-agent: *\nDisallow:"

    assert "does not allow programs to fetch it" in await refusal(f"{site.url}/moved/news.html")
    assert site.requests == ["/robots.txt", "/moved/news.html"]


async def test_the_robots_txt_of_each_redirecting_site_is_followed(site: WebPages) -> None:
    with web_pages() as other:
        other.robots = "User-agent: *\nDisallow: /pages/blog.html"
        site.answers["/there"] = Answer(headers={"location": other.page("blog.html")}, status=302)
        site.answers["/here"] = Answer(headers={"location": f"{other.url}/status/404"}, status=302)

        assert "does not allow programs to fetch it" in await refusal(f"{site.url}/there")
        await assert_requested(f"{site.url}/here")
        assert other.requests == ["/robots.txt", "/robots.txt", "/status/404"]


@pytest.mark.parametrize(
    "rules",
    [
        *(Answer(b"User-agent: *\nDisallow: /", TEXT, status=status) for status in (401, 403, 404, 410)),
        Answer(headers={"location": "/robots.txt"}, status=302),
        Answer(b"<html><body>Welcome! Disallow nothing: /", HTML),
    ],
    ids=["401", "403", "404", "410", "endless redirect", "web page"],
)
async def test_a_robots_txt_that_is_absent_or_no_list_of_rules_forbids_nothing(site: WebPages, rules: Answer) -> None:
    site.answers["/robots.txt"] = rules

    await assert_requested(f"{site.url}/status/404")


async def test_a_page_is_not_requested_while_robots_txt_fails(site: WebPages) -> None:
    site.answers["/robots.txt"] = Answer(status=503)

    assert "robots.txt" in await refusal(site.page("letter.txt"))
    assert site.requests == ["/robots.txt"]


@pytest.mark.requirement("W-09")
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("ftp://site.example/x", "http:// or https://"),
        ("http://", "names no host"),
        ("http://169.254.169.254/latest/meta-data", "are refused"),
        ("http://name.invalid/x", "cannot be resolved"),
        ("http://127.0.0.1:1/", "No connection"),
        ("http://" + "a" * 9000, "longer than"),
    ],
)
async def test_a_url_that_is_refused_or_does_not_answer_is_an_error(url: str, problem: str) -> None:
    message = await refusal(url)

    assert problem in message
    assert len(message) < 1000


async def test_credentials_of_an_address_are_never_shown(site: WebPages) -> None:
    message = await refusal(site.url.replace("http://", "http://someone:hunter2@") + "/x")

    assert "hunter2" not in message
    assert "someone" not in message
    assert "credentials" in message
    assert "hunter2" not in await refusal(site.url.replace("http://", f"http://someone:{'hunter2' * 60}@") + "/x")
    assert "s3cr3tvalue" not in await refusal(f"{site.url}/status/404?access_token=s3cr3tvalue")


@pytest.mark.requirement("W-09")
async def test_loopback_is_refused_unless_the_operator_allows_it(site: WebPages) -> None:
    message = await refusal(site.page("news.html"), PlainFetch())
    allowed = PlainFetch(Settings(outbound_allow="127.0.0.1").outbound_allow)

    assert "TOOLWEAVE_OUTBOUND_ALLOW" in message
    assert site.requests == []
    await assert_requested(f"{site.url}/status/404", allowed)
