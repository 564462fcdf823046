"""Decide where requests for strangers' URLs may go (W-09)."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from toolweave.config.outbound_allow import AllowedTarget
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound_addresses import Address, kind_of_address
from toolweave.outbound_urls import OutboundTarget, read_target

# Gives the addresses of a host name; raises OSError when there are none.
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
SETTING = "TOOLWEAVE_OUTBOUND_ALLOW"


@dataclass(frozen=True, slots=True)
class OutboundLimits:
    """How long a request may take and how large it may get; bodies are counted unpacked, 0 redirects follows none."""

    connect_seconds: float = 5.0
    total_seconds: float = 30.0
    request_bytes: int = 10 * 1024 * 1024
    response_bytes: int = 10 * 1024 * 1024
    redirects: int = 5


async def resolve(host: str, port: int) -> Sequence[str]:
    """Look a name up as the system does."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """Let requests go to public http and https addresses, and to what the operator allows.

    `allow` is the setting: a host there may have any address, and addresses in a network there count as public.
    `only` restricts requests to these hosts, as to a tool's own; it makes nothing public.
    """

    allow: tuple[AllowedTarget, ...] = ()
    only: tuple[AllowedTarget, ...] | None = None
    https_only: bool = False
    limits: OutboundLimits = OutboundLimits()
    resolver: Resolver = resolve

    async def check(self, url: str) -> OutboundTarget:
        """Check a URL as far as that goes without a connection; `send` does the same, once more, by itself.

        Raises:
            OutboundRefused: the policy does not let a request go there; says what would.
            OutboundFailed: the host's name has no address now.
        """
        target = self.check_written(url)
        await self.addresses(target.host, target.port)
        return target

    def check_written(self, url: str) -> OutboundTarget:
        """Check what can be seen in the URL itself. Raises OutboundRefused."""
        target = read_target(url)
        if self.https_only and target.scheme != "https":
            raise OutboundRefused("The URL must begin with https://.")
        if self.only is not None and not any(_names(entry, target) for entry in self.only):
            # Not the host itself: a redirect's can be made of what was sent, in another spelling.
            raise OutboundRefused("The URL's host is another than the one this request belongs to.")
        if target.address is not None:
            self._require_public(target.address, target.host, target.port)
        return target

    async def addresses(self, host: str, port: int) -> list[str]:
        """Give the addresses of a host, a name or an address, after checking all of them.

        Raises:
            OutboundRefused: one of them may not be connected to; the answer of a name server is not half trusted.
            OutboundFailed: there is none.
        """
        try:
            found = [ip_address(host)]
        except ValueError:
            found = await self._lookup(host, port)
        for address in found:
            self._require_public(address, host, port)
        return [str(address) for address in found]

    async def _lookup(self, host: str, port: int) -> list[Address]:
        try:
            async with asyncio.timeout(self.limits.connect_seconds):
                answers = await self.resolver(host, port)
        except (OSError, UnicodeError) as error:
            told = "takes too long to resolve" if isinstance(error, TimeoutError) else "cannot be resolved"
            raise OutboundFailed(f"The host {host} {told}.", reason="resolve") from error
        found = [ip_address(answer) for answer in dict.fromkeys(answers)]
        if not found:
            raise OutboundFailed(f"The host {host} has no address.", reason="resolve")
        return found

    def _require_public(self, address: Address, host: str, port: int) -> None:
        kind = kind_of_address(address)
        if kind is None or any(
            entry.covers_host(host, port) or entry.covers_address(address, port) for entry in self.allow
        ):
            return
        # Not the address itself: whoever wrote the URL is not to learn what names of our network stand for.
        shown = f"[{host}]" if ":" in host else host
        subject = f"{shown} is {kind}" if host == str(address) else f"{shown} stands for {kind}"
        raise OutboundRefused(
            f"Requests to {shown} are refused: {subject}. To allow it, the operator of this server adds "
            f"{shown} or {shown}:{port} to {SETTING}."
        )


def _names(entry: AllowedTarget, target: OutboundTarget) -> bool:
    if target.address is not None:
        return entry.covers_address(target.address, target.port)
    return entry.covers_host(target.host, target.port)
