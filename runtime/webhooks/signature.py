"""Sign webhooks in the form of the Standard Webhooks specification, so that receivers can check who wrote them."""

import base64
import hashlib
import hmac
from collections.abc import Sequence


def webhook_headers(keys: Sequence[bytes], delivery_id: str, seconds: int, body: bytes) -> dict[str, str]:
    """Give the headers of one attempt: id, time in seconds since the epoch, and a signature per key.

    The id stays the same over all attempts of a delivery. Without keys there is no signature.
    """
    headers = {"webhook-id": delivery_id, "webhook-timestamp": str(seconds)}
    signed = f"{delivery_id}.{seconds}.".encode() + body
    signatures = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
    if signatures:
        headers["webhook-signature"] = " ".join(f"v1,{signature}" for signature in signatures)
    return headers
