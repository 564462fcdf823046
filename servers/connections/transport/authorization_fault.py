"""Say that a server was not asked because we have no token for it."""

import httpx


class AuthorizationFault(httpx.ConnectError):
    """A request was not carried out for want of a token; the text is ours and holds nothing secret.

    A `ConnectError`, so that it takes the way of all faults of HTTP to callers, `last_error` and the log, as one
    after which nothing was carried out (D-5).
    """


class SignInNeeded(AuthorizationFault):
    """Only a person can help: `toolweave servers login`."""

    def __init__(self, server: str, why: str = "") -> None:
        super().__init__(f"needs a sign-in{why and f' ({why})'}: run `toolweave servers login {server}`")
