"""Read which credentials callers of the core server must send, from the settings and without loading FastMCP."""

from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from toolweave.config.settings import Settings, variable_name
from toolweave.errors import ConfigError

# Key in a request's ASGI scope: the id of a caller that earlier middleware has authenticated.
CALLER_SCOPE_KEY = "toolweave.caller"
MIN_TOKEN_LENGTH = 16
MIN_RSA_BITS = 2048
# One algorithm for each kind of key, so that a token cannot choose how it is verified.
CURVE_ALGORITHMS = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
RSA_ALGORITHM = "RS256"
JWKS_ALGORITHMS = (RSA_ALGORITHM, "ES256")


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key that verifies tokens: PEM text and its algorithm."""

    pem: str
    algorithm: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreCredentials:
    """The credentials that the server accepts: the operator's token, or a token that an issuer signed for us."""

    token: str | None = field(default=None, repr=False)
    public_key: PublicKey | None = None
    jwks_url: str | None = field(default=None, repr=False)
    issuer: str = ""
    audience: str = ""

    @property
    def is_configured(self) -> bool:
        """Return whether callers must send a credential."""
        return bool(self.token or self.public_key or self.jwks_url)


def read_core_credentials(settings: Settings) -> CoreCredentials:
    """Read the `core_…` settings and the file of the public key.

    Raises:
        ConfigError: a setting is invalid or incomplete; the message contains no value.
    """
    token = settings.core_token.get_secret_value() if settings.core_token else None
    if token is not None and (len(token) < MIN_TOKEN_LENGTH or not token.isascii() or any(map(str.isspace, token))):
        raise _invalid(
            "core_token",
            f"must have at least {MIN_TOKEN_LENGTH} characters, all ASCII and none of them a space.",
            "Generate one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
        )
    needed = {
        f"{variable_name('core_jwks_url')} or {variable_name('core_jwt_public_key')}": settings.core_jwks_url
        or settings.core_jwt_public_key,
        variable_name("core_jwt_issuer"): settings.core_jwt_issuer,
        variable_name("core_jwt_audience"): settings.core_jwt_audience,
    }
    absent = [name for name, value in needed.items() if not value]
    if 0 < len(absent) < len(needed):
        raise ConfigError(
            f"signed tokens need {' and '.join(absent)}, too: a key alone would accept every token of its owner.",
            source="settings",
            fix="Set the key, the issuer as in the tokens' 'iss', and the audience as in their 'aud'.",
        )
    key = settings.core_jwt_public_key
    return CoreCredentials(
        token=token,
        public_key=None if key is None else _read_public_key(key),
        jwks_url=settings.core_jwks_url,
        issuer=settings.core_jwt_issuer or "",
        audience=settings.core_jwt_audience or "",
    )


def _read_public_key(path: Path) -> PublicKey:
    field = "core_jwt_public_key"
    try:
        pem = path.read_text(encoding="ascii")
        key = load_pem_public_key(pem.encode())
    except OSError as error:
        raise _invalid(field, f"names a file that cannot be read: {error.strerror}.", "Name a PEM file.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise _invalid(
            field,
            "names a file without a public key.",
            "Name a PEM file: -----BEGIN PUBLIC KEY-----. From a private key: openssl pkey -in FILE -pubout.",
        ) from None
    if isinstance(key, RSAPublicKey) and key.key_size >= MIN_RSA_BITS:
        return PublicKey(pem, RSA_ALGORITHM)
    if isinstance(key, EllipticCurvePublicKey) and key.curve.name in CURVE_ALGORITHMS:
        return PublicKey(pem, CURVE_ALGORITHMS[key.curve.name])
    raise _invalid(
        field,
        "names a key of a kind that is not supported.",
        f"Use RSA of {MIN_RSA_BITS} bits or more, or an elliptic curve P-256, P-384 or P-521.",
    )


def _invalid(field: str, problem: str, fix: str) -> ConfigError:
    return ConfigError(f"{variable_name(field)} {problem}", source="settings", fix=fix)
