"""No redirect leads to where a request may not go, whatever its status and however the place is written."""

import pytest

from tests.outbound.peers import Names, Received, always, fetch, policy, serving, text
from toolweave.errors import OutboundFailed, OutboundRefused

pytestmark = pytest.mark.requirement("W-09")

HERE = [["127.0.0.1"]]
STATUSES = ("301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect")
LOOPBACK = (
    "http://127.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://2130706433:{port}/",
    "http://0x7f000001:{port}/",
    "http://0x7f.0x0.0x0.0x1:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://017700000001:{port}/",
    "http://0.0.0.0:{port}/",
    "http://[::1]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://api.example@127.0.0.1:{port}/",
    "http://user:password@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}\\@api.example/",
    "http://１２７.0.0.1:{port}/",
    "//localhost:{port}/",
    "HTTP://LOCALHOST.:{port}/",
    "https://127.0.0.1:{port}/",
)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_no_status_redirects_to_loopback(status: str, method: str) -> None:
    async with serving(always(text(body=b"inside"))) as inside:
        answer = text(status, b"", f"Location: http://127.0.0.1:{inside.port}/")
        async with serving(always(answer)) as peer:
            chosen = policy(f"api.example:{peer.port}", resolver=Names(api_example=HERE))
            with pytest.raises(OutboundRefused, match="a loopback address") as raised:
                await fetch(chosen, f"http://api.example:{peer.port}/", method)
            assert len(peer.requests) == 1
    assert raised.value.was_sent
    assert inside.requests == []


async def test_loopback_is_not_reached_by_a_redirect_in_any_spelling() -> None:
    location = ""

    async def answer(request: Received, writer: object) -> None:
        writer.write(text("302 Found", b"", f"Location: {location}"))  # type: ignore[attr-defined]

    async with serving(always(text(body=b"inside"))) as inside, serving(answer) as peer:
        chosen = policy(f"api.example:{peer.port}", resolver=Names(api_example=HERE, localhost=HERE))
        for spelling in LOOPBACK:
            location = spelling.format(port=inside.port).encode().decode("latin-1")
            with pytest.raises(OutboundRefused):
                await fetch(chosen, f"http://api.example:{peer.port}/")
        assert len(peer.requests) == len(LOOPBACK)
    assert inside.requests == []


async def test_a_name_that_is_rebound_between_a_request_and_its_redirect_is_checked_again() -> None:
    async with serving(always(text("307 Temporary Redirect", b"", "Location: /again"))) as peer:
        names = Names(rebound_example=[["127.0.0.1"], ["169.254.169.254"]])
        with pytest.raises(OutboundRefused, match="a link-local address") as raised:
            await fetch(policy(resolver=names), f"http://rebound.example:{peer.port}/")
        assert [request.line for request in peer.requests] == ["GET / HTTP/1.1"]
    assert raised.value.was_sent
    assert "169.254" not in str(raised.value)


@pytest.mark.parametrize("location", ["http://nowhere.example/", "http://127.0.0.1:1/"])
async def test_a_redirect_that_leads_nowhere_does_not_make_the_first_request_unsent(location: str) -> None:
    async with serving(always(text("302 Found", b"", f"Location: {location}"))) as peer:
        with pytest.raises(OutboundFailed) as raised:
            await fetch(policy(resolver=Names()), f"http://127.0.0.1:{peer.port}/")
    assert raised.value.was_sent


@pytest.mark.parametrize("url", ["http://nowhere.example/", "http://127.0.0.1:1/"])
async def test_what_fails_before_a_connection_was_surely_not_sent(url: str) -> None:
    with pytest.raises(OutboundFailed) as raised:
        await fetch(policy(resolver=Names()), url)
    assert raised.value.was_sent is False


async def test_what_is_refused_was_surely_not_sent() -> None:
    with pytest.raises(OutboundRefused) as raised:
        await fetch(policy(resolver=Names()), "http://10.0.0.1/")
    assert raised.value.was_sent is False
