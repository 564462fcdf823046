"""Where requests may go: public addresses, the tool's own host, and what the operator allows."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.outbound.peers import Names, policy
from toolweave.errors import OutboundFailed, OutboundRefused

pytestmark = pytest.mark.requirement("W-09")

PUBLIC = ("93.184.216.34", "8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.1.1", "2606:4700::1111", "2a00:1450:4001::1")
# Each kind of address that is not public, with the first or the last address of its networks.
NOT_PUBLIC = {
    "the unspecified address": ("0.0.0.0", "::"),  # noqa: S104
    "an address of this network itself": ("0.1.2.3",),
    "a private address": ("10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fec0::1"),
    "an address shared behind a provider's NAT": ("100.64.0.1", "100.100.100.200"),
    "a loopback address": ("127.0.0.1", "127.255.255.254", "::1"),
    "a cloud provider's internal address": ("168.63.129.16",),
    "a link-local address": ("169.254.169.254", "fe80::1"),
    "an address reserved for protocols": ("192.0.0.192", "2001:10::1"),
    "an address for documentation": ("192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"),
    "a 6to4 relay's address": ("192.88.99.1",),
    "an address for benchmarks": ("198.18.0.1",),
    "a multicast address": ("224.0.0.1", "239.255.255.255", "ff02::1"),
    "a reserved address": ("240.0.0.1", "::127.0.0.1", "100::1", "4000::1", "5f00::1"),
    "the broadcast address": ("255.255.255.255",),
    "an IPv4 address written as an IPv6 one": ("::ffff:127.0.0.1", "::ffff:93.184.216.34"),
    "an IPv4 address behind NAT64": ("64:ff9b::7f00:1", "64:ff9b::5db8:d822", "64:ff9b:1::1"),
    "a Teredo tunnel's address": ("2001::1",),
    "a 6to4 tunnel's address": ("2002:7f00:1::", "2002:5db8:d822::"),
}


def url_of(address: str) -> str:
    return f"https://[{address}]/" if ":" in address else f"https://{address}/"


@pytest.mark.parametrize("address", PUBLIC)
async def test_public_addresses_are_requested_written_out_or_behind_a_name(address: str) -> None:
    names = Names(example_org=[[address]])
    assert (await policy("", resolver=names).check_url("https://example.org/")).host == "example.org"
    assert str((await policy("", resolver=names).check_url(url_of(address))).address) == address
    assert names.lookups == ["example.org"]


@pytest.mark.parametrize(("kind", "address"), [(kind, address) for kind in NOT_PUBLIC for address in NOT_PUBLIC[kind]])
async def test_other_addresses_are_refused_written_out_and_behind_a_name(kind: str, address: str) -> None:
    chosen = policy("", resolver=Names(example_org=[[address]]))
    with pytest.raises(OutboundRefused, match=f"is {kind}.*TOOLWEAVE_OUTBOUND_ALLOW"):
        await chosen.check_url(url_of(address))
    fix = r"adds example\.org or example\.org:443 to TOOLWEAVE_OUTBOUND_ALLOW"
    with pytest.raises(OutboundRefused, match=f"stands for {kind}.*{fix}") as raised:
        await chosen.check_url("https://example.org/")
    assert address not in str(raised.value).replace("TOOLWEAVE", "")


@pytest.mark.parametrize(
    ("allow", "allowed", "refused"),
    [
        ("10.0.0.0/8", "http://inside.example:8080/", "http://192.168.0.1/"),
        ("10.1.2.3", "http://10.1.2.3:81/", "http://10.1.2.4/"),
        ("10.1.2.3:81", "http://inside.example:81/", "http://10.1.2.3/"),
        ("inside.example", "http://inside.example:81/", "http://10.1.2.3/"),
        ("INSIDE.example.", "http://Inside.Example./", "http://other.inside.example/"),
        ("inside.example:81", "http://inside.example:81/", "http://inside.example/"),
        ("mixed.example", "http://mixed.example/", "http://inside.example/"),
        ("10.0.0.0/8", "http://10.1.2.3/", "http://mixed.example/"),
        ("10.0.0.0/8, fd00::/8", "http://mixed.example/", "http://127.0.0.1/"),
        ("::1", "http://[::1]:81/", "http://127.0.0.1/"),
        ("[::1]:81", "http://[::1]:81/", "http://[::1]/"),
        ("fd00::/8", "http://[fd00::5]/", "http://[fc00::5]/"),
        ("64:ff9b::/96", "http://[64:ff9b::5db8:d822]/", "http://[64:ff9b:1::1]/"),
        ("127.0.0.0/8", "http://127.0.0.1/", "http://[::ffff:127.0.0.1]/"),
        ("127.0.0.0/8", "http://127.8.9.1/", "http://2130706433/"),
        ("0.0.0.0/0", "http://169.254.169.254/", "http://[::1]/"),
    ],
)
async def test_the_setting_allows_what_it_names_and_nothing_else(allow: str, allowed: str, refused: str) -> None:
    names = Names(
        inside_example=[["10.1.2.3"]],
        other_inside_example=[["10.1.2.3"]],
        mixed_example=[["93.184.216.34", "fd00::1", "10.1.2.3"]],
    )
    chosen = policy(allow, resolver=names)
    await chosen.check_url(allowed)
    with pytest.raises(OutboundRefused):
        await chosen.check_url(refused)


@pytest.mark.parametrize(
    ("only", "allowed", "refused"),
    [
        ("api.example", "https://api.example/x", "https://evil.example/api.example"),
        ("api.example", "https://API.example.:8443/x", "https://api.example.evil.example/"),
        ("api.example:443", "https://api.example/x", "http://api.example/x"),
        ("api.example", "http://api.example/", "https://sub.api.example/"),
        ("api.example", "https://api.example/", "https://93.184.216.34/"),
        ("93.184.216.34", "https://93.184.216.34/", "https://api.example/"),
        ("inside.example, api.example", "https://api.example/", "https://inside.example/"),
    ],
)
async def test_a_tools_own_host_is_the_only_one_and_must_be_public_like_any(
    only: str, allowed: str, refused: str
) -> None:
    public = [["93.184.216.34"]]
    names = Names(api_example=public, evil_example=public, sub_api_example=public, inside_example=[["10.1.2.3"]])
    chosen = policy("", only=only, resolver=names)
    await chosen.check_url(allowed)
    with pytest.raises(OutboundRefused):
        await chosen.check_url(refused)


async def test_a_name_without_an_address_is_a_temporary_failure() -> None:
    names = Names(empty_example=[[]])
    for host in ("unknown.example", "empty.example"):
        with pytest.raises(OutboundFailed, match=host) as raised:
            await policy(resolver=names).check_url(f"https://{host}/")
        assert raised.value.reason == "resolve"


async def test_a_silent_name_server_is_an_error_in_time() -> None:
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
