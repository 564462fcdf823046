"""A stranger's URL is read in one way only, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolweave.errors import OutboundRefused
from toolweave.outbound_policy import parse_target

pytestmark = pytest.mark.requirement("W-09")

CHECKED = (
    ("http://example.org", ("http", "example.org", 80, "/")),
    ("HTTPS://EXAMPLE.org/A?b=c#d", ("https", "example.org", 443, "/A?b=c")),
    ("https://example.org.:8443/x", ("https", "example.org", 8443, "/x")),
    ("https://example.org?q=1", ("https", "example.org", 443, "/?q=1")),
    ("https://example.org#f", ("https", "example.org", 443, "/")),
    ("https://example.org:/x", ("https", "example.org", 443, "/x")),
    ("http://93.184.216.34:81/", ("http", "93.184.216.34", 81, "/")),
    ("http://93.184.216.34./", ("http", "93.184.216.34", 80, "/")),
    ("http://[2606:2800:0220::0001]/", ("http", "2606:2800:220::1", 80, "/")),
    ("https://bücher.example/ä", ("https", "xn--bcher-kva.example", 443, "/%C3%A4")),
    ("https://a_b.example/", ("https", "a_b.example", 443, "/")),
    # What looks like a host is path or query here, and stays there.
    ("https://example.org//evil.example/", ("https", "example.org", 443, "//evil.example/")),
    ("https://example.org/@evil.example", ("https", "example.org", 443, "/@evil.example")),
    ("https://example.org?@evil.example", ("https", "example.org", 443, "/?@evil.example")),
    ("https://example.org#@evil.example/", ("https", "example.org", 443, "/")),
)

# The reason of a refusal, and URLs that are refused for it.
REFUSED = {
    "begin with http": ("", "//example.org/", "file:///etc/passwd", "javascript:alert(1)", "http:/example.org"),
    "names no host": ("http:///example.org", "https://?x", "https://:443/", "http://[::1", "http://::1/"),
    "holds credentials": (
        *("https://user:secret@example.org/", "https://@example.org/", "http://[::1]@example.org/"),
        *("https://example.org@127.0.0.1/", "https://example.org:80@127.0.0.1:80@x/"),
    ),
    "a blank, a backslash or a control character": (
        *(" https://example.org/", "https://exa mple.org/", "https://example.org/\t", "https://example.org/\x00"),
        *("https://example.org\\@127.0.0.1/", "https://example.org/\r\nHost: evil.example", "https://example.org/\n"),
        *("https://example.org/\x85", "https://example.org/\u2028", "https://example.org/\u200b"),
        *("https://example.org/\ud800", "https://exa\u00admple.org/", "https://example.org/\u3000"),
    ),
    "an unusual spelling": (
        *("http://2130706433/", "http://0x7f.0.0.1/", "http://0x/", "http://0177.0.0.1/", "http://127.1/"),
        *("http://127.0.0.01/", "http://127.0.0.1.1/", "http://127.0.0.256/", "http://example.0x1/"),
    ),
    # Digits and letters that are other ones for the eye only.
    "not a valid|an unusual spelling": (
        *("http://１２７.0.0.1/", "http://127.0.0.١/", "http://①②⑦.⓪.⓪.①/", "http://ⓛocalhost/"),
        *("http://loc\u1d43lhost/", "http://127%2e0.0.1/", "http://%31%32%37.0.0.1/"),
    ),
    "in brackets is not an IPv6 address": (
        *("http://[fe80::1%25eth0]/", "http://[::1%eth0]/", "http://[127.0.0.1]/", "http://[localhost]/", "http://[]/"),
    ),
    "not between 1 and 65535": ("http://example.org:0/", "http://example.org:65536/"),
    "no host|not a valid host name": (
        *("http://example.org:-1/", "http://example.org:８０/", "http://example.org:80:80/", "http://[[::1]]/"),
        *("http://[::1].example.org/", "http://./", "http://.example.org/", "http://example..org/"),
        *("http://example.org../", "http://-example.org/", "http://example-.org/", "http://exa*mple.org/"),
        *("http://{host}/", f"http://{'a' * 64}.example/", f"http://{'a.' * 130}example/"),
    ),
    "longer than 8192": (f"http://example.org/{'a' * 9000}",),
}


@pytest.mark.parametrize(("url", "expected"), CHECKED, ids=[url for url, _ in CHECKED])
def test_a_plain_url_is_taken_apart(url: str, expected: tuple[str, str, int, str]) -> None:
    target = parse_target(url)
    assert (target.scheme, target.host, target.port, target.path) == expected


@pytest.mark.parametrize(("reason", "url"), [(reason, url) for reason in REFUSED for url in REFUSED[reason]], ids=ascii)
def test_a_url_that_could_be_read_in_two_ways_is_refused(reason: str, url: str) -> None:
    with pytest.raises(OutboundRefused, match=reason):
        parse_target(url)


def test_an_ideographic_full_stop_is_read_as_the_dot_that_it_is_looked_up_as() -> None:
    assert parse_target("http://127。0。0。1/").host == "127.0.0.1"
    assert str(parse_target("http://127。0。0。1/").address) == "127.0.0.1"


def test_a_refusal_never_repeats_what_could_be_a_secret() -> None:
    for url in ("https://user:hunter2@example.org/", "https://example.org/\thunter2", "gopher://hunter2/"):
        with pytest.raises(OutboundRefused) as raised:
            parse_target(url)
        assert "hunter2" not in str(raised.value)


AWKWARD = st.sampled_from(list("/\\@:#?%[].0123456789xX \t\r\n\u3002\uff10-_ae"))
HOSTILE = st.builds(
    str.__add__,
    st.sampled_from(["http://", "https://", "HTTP:/", "http:\\\\", "https://a@", "http://["]),
    st.one_of(st.text(AWKWARD, max_size=30), st.text(max_size=30)),
)


@given(HOSTILE)
def test_an_accepted_url_is_parsed_alike_a_second_time(url: str) -> None:
    try:
        target = parse_target(url)
    except OutboundRefused:
        return
    assert parse_target(target.url) == target
    assert target.host.isascii()
    assert target.path.isascii()
    assert not any(character in target.host for character in "/\\@?#% ")
    assert all(character.isprintable() and character != " " for character in target.path)
