"""Sign tokens as an issuer would, and as an attacker would."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

ISSUER = "https://issuer.example.org"
AUDIENCE = "toolweave-core"

RsaKey = rsa.RSAPrivateKey
EcKey = ec.EllipticCurvePrivateKey


def rsa_key(bits: int = 2048) -> RsaKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def ec_key() -> EcKey:
    return ec.generate_private_key(ec.SECP256R1())


def public_pem(key: RsaKey | EcKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def private_pem(key: RsaKey | EcKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def jwk(key: RsaKey, kid: str) -> dict[str, str]:
    numbers = key.public_key().public_numbers()
    n, e = (_coded(value.to_bytes((value.bit_length() + 7) // 8)) for value in (numbers.n, numbers.e))
    return {"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", "n": n, "e": e}


def claims(**others: Any) -> dict[str, Any]:
    """Give the claims of a valid token; None leaves one out."""
    now = int(time.time())
    usual = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600}
    return {name: value for name, value in (usual | others).items() if value is not None}


def signed(key: RsaKey | EcKey, content: dict[str, Any], **header: Any) -> str:
    """Sign with RS256, or ES256 with a key for it."""
    if isinstance(key, RsaKey):
        begun = _begun({"alg": "RS256", **header}, content)
        return _ended(begun, key.sign(begun.encode(), padding.PKCS1v15(), hashes.SHA256()))
    begun = _begun({"alg": "ES256", **header}, content)
    r, s = decode_dss_signature(key.sign(begun.encode(), ec.ECDSA(hashes.SHA256())))
    return _ended(begun, r.to_bytes(32) + s.to_bytes(32))


def unsigned(content: dict[str, Any]) -> str:
    return _ended(_begun({"alg": "none"}, content), b"")


def signed_with_text(secret: str, content: dict[str, Any]) -> str:
    """Sign with HS256, whose secret is a public text."""
    begun = _begun({"alg": "HS256"}, content)
    return _ended(begun, hmac.new(secret.encode(), begun.encode(), hashlib.sha256).digest())


def _begun(header: dict[str, Any], content: dict[str, Any]) -> str:
    return f"{_coded(json.dumps({'typ': 'JWT', **header}).encode())}.{_coded(json.dumps(content).encode())}"


def _ended(begun: str, signature: bytes) -> str:
    return f"{begun}.{_coded(signature)}"


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
