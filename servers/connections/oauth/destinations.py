"""Decide where requests for tokens may go: an MCP server, which may be hostile, names the URLs."""

import httpx

from toolweave.config.mcp_entry import LOOPBACK_HOSTS
from toolweave.errors import OutboundFailed, OutboundRefused
from toolweave.outbound_policy import OutboundPolicy
from toolweave.servers.connections.transport.authorization_fault import AuthorizationFault


def refuse_unsafe(url: httpx.URL, resource: httpx.URL) -> None:
    """Keep secrets off the open net, and a server elsewhere from sending us to services of this machine.

    Raises:
        AuthorizationFault: it is not https, or holds credentials; or it is on this machine and `resource` is not.
    """
    local = url.host in LOOPBACK_HOSTS
    if local and resource.host not in LOOPBACK_HOSTS:
        raise AuthorizationFault("it points at this machine for its authorization, which is refused")
    if url.scheme not in ("http", "https") or (url.scheme != "https" and not local) or url.userinfo:
        raise AuthorizationFault(f"it points at {url.scheme}://{url.host} for its authorization: only https is used")


class Destinations:
    """Where one exchange may go.

    Args:
        resource: the MCP server's URL, as configured.
        issuer: the authorization server that the configuration names, if it does.
        policy: tells public addresses from others (W-09).
    """

    def __init__(self, resource: str, issuer: str | None = None, policy: OutboundPolicy | None = None) -> None:
        self.resource = httpx.URL(resource)
        self._written = {self.resource.host, httpx.URL(issuer or resource).host}
        self._policy = policy or OutboundPolicy()

    async def check(self, url: httpx.URL) -> None:
        """Refuse what `refuse_unsafe` does, and to be sent by a public server into a private network.

        Hosts that the configuration names are meant. The connection is not bound to the addresses that are checked:
        a name that changes them has no certificate for what it then stands for.

        Raises:
            AuthorizationFault: requests do not go there.
        """
        refuse_unsafe(url, self.resource)
        if url.host in self._written or url.host in LOOPBACK_HOSTS:
            return
        if await self._is_private(url) and not await self._is_private(self.resource):
            raise AuthorizationFault(
                f"it points at {url.host}, in a private network, for its authorization: set auth.issuer if you trust it"
            )

    async def _is_private(self, url: httpx.URL) -> bool:
        try:
            await self._policy.check(str(url))
        except OutboundRefused:
            return True
        except OutboundFailed:
            pass  # the name is known to a proxy at most
        return False
