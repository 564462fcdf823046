"""Let in callers of the core server who show a token: the operator's own, or one signed for this service (C-01)."""

import asyncio
import base64
import hmac
import json
import time
from functools import partial
from typing import Any

import httpx
from fastmcp.server.auth import AccessToken, AuthProvider, JWTVerifier, TokenVerifier
from loguru import logger

from toolweave.config.settings import Settings
from toolweave.servers.core.credentials import PUBLISHED, CoreCredentials, core_credentials

KEYS_LIMIT_S = 4.0
CLOCK_SKEW_S = 60
OPERATOR = "operator"
_PARTS = 3
_LONGEST_TOKEN = 16_384


def core_auth(settings: Settings) -> AuthProvider | None:
    """Build what checks the tokens of callers; None where the operator has set nothing to check them by.

    Raises:
        ConfigError: as `core_credentials`.
    """
    credentials = core_credentials(settings)
    return CoreAuth(credentials) if credentials.are_set else None


class CoreAuth(TokenVerifier):
    """Check bearer tokens against all that the operator has set; one that fits is enough.

    The algorithm is fixed by the key: a token whose header names another is not looked at.
    """

    def __init__(self, credentials: CoreCredentials) -> None:
        super().__init__()
        self._token = credentials.token
        self._signed: list[SignedTokens] = []
        by = partial(SignedTokens, issuer=credentials.issuer, audience=credentials.audience)
        if key := credentials.public_key:
            self._signed.append(by(public_key=key.pem, algorithm=key.algorithm))
        if url := credentials.jwks_url:
            self._signed += [by(jwks_uri=url, algorithm=algorithm) for algorithm in PUBLISHED]

    async def verify_token(self, token: str) -> AccessToken | None:
        """Say whom a token stands for; None for nobody."""
        if self._token is not None and hmac.compare_digest(token.encode(), self._token.encode()):
            return AccessToken(token=token, client_id=OPERATOR, scopes=[])
        algorithm = _algorithm_of(token)
        for signed in self._signed:
            if signed.algorithm == algorithm and (known := await signed.verify_token(token)):
                return known
        return None


class SignedTokens(JWTVerifier):
    """FastMCP's verifier, for tokens that end: one without an end would let its holder in for ever."""

    async def load_access_token(self, token: str) -> AccessToken | None:
        """Check a token's signature, issuer, audience, beginning and end."""
        known = await super().load_access_token(token)
        if known is None or not _is_number(known.claims.get("exp")):
            return None
        begins = known.claims.get("nbf", 0)
        if not _is_number(begins) or begins > time.time() + CLOCK_SKEW_S:
            return None
        # To whom a session belongs: another subject of the same client must not go on with it.
        subject = known.claims.get("sub")
        return known.model_copy(update={"subject": None if subject is None else str(subject)})

    async def _fetch_jwks(self) -> dict[str, Any]:
        # FastMCP has no limit for the whole of it, and no word for the operator.
        try:
            async with asyncio.timeout(KEYS_LIMIT_S):
                keys: Any = await super()._fetch_jwks()
        except (TimeoutError, httpx.HTTPError, ValueError) as error:
            logger.error("the keys of TOOLWEAVE_CORE_JWKS_URL cannot be fetched: {}", type(error).__name__)
            raise ValueError("no keys") from None
        if not isinstance(keys, dict) or not isinstance(keys.get("keys"), list):
            logger.error("what TOOLWEAVE_CORE_JWKS_URL gives is no set of keys")
            raise ValueError("no keys")  # noqa: TRY004 - what FastMCP expects
        return keys


def _algorithm_of(token: str) -> str | None:
    """Read which algorithm a signed token names; None for what is no such token."""
    parts = token.split(".")
    if len(parts) != _PARTS or len(token) > _LONGEST_TOKEN or not token.isascii():
        return None
    try:
        header = json.loads(base64.urlsafe_b64decode(parts[0] + "=" * (-len(parts[0]) % 4)))
    except (ValueError, RecursionError):
        return None
    algorithm = header.get("alg") if isinstance(header, dict) else None
    return algorithm if isinstance(algorithm, str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
