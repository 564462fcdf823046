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

REFUSED = (
    # No http URL at all.
    "",
    "example.org",
    "//example.org/",
    "/hook",
    "ftp://example.org/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "data:text/plain,x",
    "javascript:alert(1)",
    "http:example.org",
    "http:/example.org",
    "http:///example.org",
    "https://",
    "https://?x",
    "https://:443/",
    # Credentials, and hosts hidden behind them.
    "https://user:secret@example.org/",
    "https://user@example.org/",
    "https://@example.org/",
    "https://example.org@127.0.0.1/",
    "https://example.org%40127.0.0.1/",
    "https://example.org:443@127.0.0.1/",
    "https://example.org:80@127.0.0.1:80@x/",
    # Backslashes, blanks, line breaks and other invisible characters.
    "https:\\\\example.org\\",
    "https://example.org\\@127.0.0.1/",
    "https://127.0.0.1\\.example.org/",
    " https://example.org/",
    "https://example.org/ ",
    "https://exa mple.org/",
    "https://example.org/\r\nHost: evil.example",
    "https://example.org\r\n/",
    "https://example.org/\n",
    "https://example.org/\t",
    "https://example.org/\x00",
    "https://example.org/\x7f",
    "https://example.org/\x85",
    "https://example.org/\u2028",
    "https://example.org/\u200b",
    "https://example.org/\ud800",
    "https://exa\u00admple.org/",
    "https://example.org/\u3000",
    # Addresses in spellings that only some programs understand.
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0x/",
    "http://0177.0.0.1/",
    "http://017700000001/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.1.1/",
    "http://127.0.0.256/",
    "http://1.2.3.4.5.6.7.8/",
    "http://0/",
    "http://00000000177.0.0.1/",
    "http://example.0x1/",
    "http://１２７.0.0.1/",
    "http://127.0.0.١/",
    "http://①②⑦.⓪.⓪.①/",
    "http://ⓛocalhost/",
    "http://loc\u1d43lhost/",
    "http://127%2e0.0.1/",
    "http://%31%32%37.0.0.1/",
    # IPv6: zones, brackets, mixed forms.
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1%250]/",
    "http://[::1",
    "http://::1/",
    "http://[[::1]]/",
    "http://[127.0.0.1]/",
    "http://[localhost]/",
    "http://[]/",
    "http://[::1].example.org/",
    "http://[::1]@example.org/",
    "http://[v1.fe80::a]/",
    # Ports.
    "http://example.org:0/",
    "http://example.org:65536/",
    "http://example.org:99999/",
    "http://example.org:-1/",
    "http://example.org:+80/",
    "http://example.org:８０/",
    "http://example.org:80:80/",
    "http://example.org:http/",
    # Names that are none.
    "http://./",
    "http://../",
    "http://.example.org/",
    "http://example..org/",
    "http://example.org../",
    "http://-example.org/",
    "http://example-.org/",
    "http://exa*mple.org/",
    "http://exa$mple.org/",
    "http://exa;mple.org/",
    "http://exa,mple.org/",
    "http://{host}/",
    f"http://{'a' * 64}.example/",
    f"http://{'a.' * 130}example/",
    f"http://example.org/{'a' * 9000}",
)


@pytest.mark.parametrize(("url", "expected"), CHECKED, ids=[url for url, _ in CHECKED])
def test_a_plain_url_is_taken_apart(url: str, expected: tuple[str, str, int, str]) -> None:
    target = parse_target(url)
    assert (target.scheme, target.host, target.port, target.path) == expected


@pytest.mark.parametrize("url", REFUSED, ids=ascii)
def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(OutboundRefused):
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
def test_whatever_is_accepted_reads_the_same_when_it_is_read_again(url: str) -> None:
    try:
        target = parse_target(url)
    except OutboundRefused:
        return
    assert parse_target(target.url) == target
    assert target.host.isascii()
    assert target.path.isascii()
    assert not any(character in target.host for character in "/\\@?#% ")
    assert all(character.isprintable() and character != " " for character in target.path)
