"""Say which IP addresses belong to the public internet (W-09).

The table follows IANA's special-purpose registries. Addresses that carry an IPv4 address inside an IPv6 one are
refused as such: who wants to reach the inner one can write it.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

Address = IPv4Address | IPv6Address

# The first network that holds an address says what it is, so narrower ones come first.
_NOT_PUBLIC: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/32", "the unspecified address"),
    ("0.0.0.0/8", "an address of this network itself"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "an address shared behind a provider's NAT"),
    ("127.0.0.0/8", "a loopback address"),
    ("168.63.129.16/32", "a cloud provider's internal address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "an address reserved for protocols"),
    ("192.0.2.0/24", "an address for documentation"),
    ("192.88.99.0/24", "a 6to4 relay's address"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "an address for benchmarks"),
    ("198.51.100.0/24", "an address for documentation"),
    ("203.0.113.0/24", "an address for documentation"),
    ("224.0.0.0/4", "a multicast address"),
    ("255.255.255.255/32", "the broadcast address"),
    ("240.0.0.0/4", "a reserved address"),
    ("::/128", "the unspecified address"),
    ("::1/128", "a loopback address"),
    ("::ffff:0:0/96", "an IPv4 address written as an IPv6 one"),
    ("64:ff9b::/96", "an IPv4 address behind NAT64"),
    ("64:ff9b:1::/48", "an IPv4 address behind NAT64"),
    ("2001:db8::/32", "an address for documentation"),
    ("2001::/32", "a Teredo tunnel's address"),
    ("2001::/23", "an address reserved for protocols"),
    ("2002::/16", "a 6to4 tunnel's address"),
    ("3fff::/20", "an address for documentation"),
    ("fc00::/7", "a private address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a private address"),
    ("ff00::/8", "a multicast address"),
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")


def _by_version() -> dict[int, tuple[tuple[IPv4Network | IPv6Network, str], ...]]:
    networks = [(ip_network(network), kind) for network, kind in _NOT_PUBLIC]
    return {version: tuple(entry for entry in networks if entry[0].version == version) for version in (4, 6)}


_NETWORKS = _by_version()


def kind_of_address(address: Address) -> str | None:
    """Describe an address that is not public, as "a private address"; None for a public one."""
    for network, kind in _NETWORKS[address.version]:
        if address in network:
            return kind
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:
        return "a reserved address"
    return None
