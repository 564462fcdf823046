"""Where requests may go: public addresses, the tool's own host, and what the operator allows."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.outbound.peers import Names, policy
from toolweave.errors import OutboundFailed, OutboundRefused

pytestmark = pytest.mark.requirement("W-09")

PUBLIC = ("93.184.216.34", "8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450:4001::1")
NOT_PUBLIC = (
    "0.0.0.0",  # noqa: S104
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:93.184.216.34",
    "64:ff9b::7f00:1",
    "64:ff9b::5db8:d822",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:5db8:d822::",
    "3fff::1",
    "5f00::1",
    "4000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fec0::1",
    "ff02::1",
)


def url_of(address: str) -> str:
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses_are_requested_written_out_or_behind_a_name(address: str) -> None:
    names = Names(example_org=[[address]])
    assert (await policy("", resolver=names).check_url("https://example.org/")).host == "example.org"
    assert str((await policy("", resolver=names).check_url(url_of(address))).address) == address
    assert names.asked == ["example.org"]


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_other_addresses_are_refused_written_out_and_behind_a_name(address: str) -> None:
    names = Names(example_org=[[address]])
    with pytest.raises(OutboundRefused, match="TOOLWEAVE_OUTBOUND_ALLOW"):
        await policy("", resolver=names).check_url(url_of(address))
    with pytest.raises(
        OutboundRefused, match=r"adds example\.org or example\.org:443 to TOOLWEAVE_OUTBOUND_ALLOW"
    ) as told:
        await policy("", resolver=names).check_url("https://example.org/")
    assert address not in str(told.value).replace("TOOLWEAVE", "")


@pytest.mark.parametrize(
    ("allow", "url", "allowed"),
    [
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://inside.example:8080/", True),
        ("10.0.0.0/8", "http://192.168.0.1/", False),
        ("10.1.2.3", "http://10.1.2.3:81/", True),
        ("10.1.2.3", "http://10.1.2.4/", False),
        ("10.1.2.3:81", "http://10.1.2.3:81/", True),
        ("10.1.2.3:81", "http://inside.example:81/", True),
        ("10.1.2.3:81", "http://10.1.2.3/", False),
        ("inside.example", "http://inside.example:81/", True),
        ("INSIDE.example.", "http://Inside.Example./", True),
        ("inside.example", "http://10.1.2.3/", False),
        ("inside.example", "http://other.inside.example/", False),
        ("inside.example", "http://mixed.example/", False),
        ("inside.example:81", "http://inside.example:81/", True),
        ("inside.example:81", "http://inside.example/", False),
        ("mixed.example", "http://mixed.example/", True),
        ("10.0.0.0/8", "http://mixed.example/", False),
        ("10.0.0.0/8, fd00::/8", "http://mixed.example/", True),
        ("::1", "http://[::1]:81/", True),
        ("[::1]:81", "http://[::1]:81/", True),
        ("[::1]:81", "http://[::1]/", False),
        ("fd00::/8", "http://[fd00::5]/", True),
        ("64:ff9b::/96", "http://[64:ff9b::5db8:d822]/", True),
        ("127.0.0.0/8", "http://[::ffff:127.0.0.1]/", False),
        ("127.0.0.0/8", "http://2130706433/", False),
        ("0.0.0.0/0", "http://[::1]/", False),
        ("0.0.0.0/0", "http://169.254.169.254/", True),
    ],
)
async def test_the_setting_lets_through_what_it_names_and_nothing_else(allow: str, url: str, allowed: bool) -> None:
    names = Names(
        inside_example=[["10.1.2.3"]],
        other_inside_example=[["10.1.2.3"]],
        mixed_example=[["93.184.216.34", "fd00::1", "10.1.2.3"]],
    )
    try:
        await policy(allow, resolver=names).check_url(url)
    except OutboundRefused:
        assert not allowed
    else:
        assert allowed


@pytest.mark.parametrize("answer", [["93.184.216.34", "127.0.0.1"], ["2606:4700::1", "::1"], ["8.8.8.8", "fe80::1%2"]])
async def test_one_bad_address_among_good_ones_refuses_the_name(answer: Sequence[str]) -> None:
    with pytest.raises(OutboundRefused):
        await policy("", resolver=Names(mixed_example=[answer])).check_url("https://mixed.example/")


@pytest.mark.parametrize(
    ("only", "url", "allowed"),
    [
        ("api.example", "https://api.example/x", True),
        ("api.example", "https://API.example.:8443/x", True),
        ("api.example:443", "https://api.example/x", True),
        ("api.example:443", "http://api.example/x", False),
        ("api.example", "https://evil.example/api.example", False),
        ("api.example", "https://api.example.evil.example/", False),
        ("api.example", "https://sub.api.example/", False),
        ("api.example", "https://93.184.216.34/", False),
        ("93.184.216.34", "https://93.184.216.34/", True),
        ("inside.example", "https://inside.example/", False),
    ],
)
async def test_a_tools_own_host_is_the_only_one_and_must_be_public_like_any(only: str, url: str, allowed: bool) -> None:
    names = Names(
        api_example=[["93.184.216.34"]],
        evil_example=[["93.184.216.34"]],
        sub_api_example=[["93.184.216.34"]],
        inside_example=[["10.1.2.3"]],
    )
    try:
        await policy("", only=only, resolver=names).check_url(url)
    except OutboundRefused:
        assert not allowed
    else:
        assert allowed


async def test_names_without_addresses_are_failures_that_may_pass() -> None:
    names = Names(empty_example=[[]])
    for host in ("unknown.example", "empty.example"):
        with pytest.raises(OutboundFailed, match=host) as raised:
            await policy(resolver=names).check_url(f"https://{host}/")
        assert raised.value.reason == "resolve"


async def test_a_name_server_that_does_not_answer_is_not_waited_for() -> None:
    async def silent(_host: str, _port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return ()

    with pytest.raises(OutboundFailed, match="too long"):
        await policy(resolver=silent, connect_timeout_s=0.01).check_url("https://example.org/")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.", "127.0.0.1"])
async def test_this_machine_is_refused_by_the_systems_own_names(host: str) -> None:
    with pytest.raises(OutboundRefused, match="a loopback address"):
        await policy("").check_url(f"http://{host}:9/")
    assert (await policy("127.0.0.0/8, ::1").check_url(f"http://{host}:9/")).port == 9
