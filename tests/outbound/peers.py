"""HTTP and HTTPS servers on real sockets that send exactly the bytes that a test gives."""

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from toolweave.config.outbound_allow import allowed_targets
from toolweave.outbound import OutboundLimits, OutboundPolicy, OutboundRequest, OutboundResponse, open_outbound_client
from toolweave.outbound_policy import Resolver

Answer = Callable[["Received", asyncio.StreamWriter], Awaitable[None]]
LIMITS = OutboundLimits(
    connect_timeout_s=60, total_timeout_s=60, max_request_bytes=1000, max_response_bytes=1000, max_redirects=3
)


@dataclass
class Received:
    """One request as it came over the wire."""

    line: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for given, value in self.headers if given.lower() == name), None)


@dataclass
class Peer:
    """A server that records its requests; it listens on `port` of 127.0.0.1."""

    port: int
    requests: list[Received] = field(default_factory=list)


def text(status: str = "200 OK", body: bytes = b"", *headers: str) -> bytes:
    """Write an answer with its length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(answer: bytes) -> Answer:
    """Send the same bytes as every response."""

    async def give(_request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return give


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """Serve on a free port; a request is recorded before it is answered."""
    peer = Peer(0)
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            request = await _read(reader)
            peer.requests.append(request)
            await answer(request, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        # asyncio loses a connection that it accepts just when the server is closed: let it reach its handler first.
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        for task in handlers:
            task.cancel()
        await asyncio.gather(*handlers)
        await server.wait_closed()


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in head[1:] if line)]
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Received(head[0], headers, await reader.readexactly(length))


def policy(
    allow: str = "127.0.0.0/8", *, only: str | None = None, resolver: Resolver | None = None, **limits: float
) -> OutboundPolicy:
    """Make a policy with the tests' limits; `allow` and `only` are written as in the settings."""
    chosen = OutboundLimits(**{**{name: getattr(LIMITS, name) for name in LIMITS.__slots__}, **limits})
    made = OutboundPolicy(
        allow=allowed_targets(allow), only=None if only is None else allowed_targets(only), limits=chosen
    )
    return made if resolver is None else OutboundPolicy(made.allow, made.only, limits=chosen, resolver=resolver)


async def fetch(chosen: OutboundPolicy, url: str, method: str = "GET", content: bytes = b"") -> OutboundResponse:
    """Send one request with a client of its own."""
    async with open_outbound_client(chosen, trust=ssl.create_default_context()) as client:
        return await client.send(OutboundRequest(method, url, content=content))


class Names:
    """A name server of the test: each lookup of a name returns the next list, then always the last one."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): [list(answer) for answer in given] for name, given in answers.items()}
        self.lookups: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.lookups.append(host)
        answers = self._answers.get(host)
        if answers is None:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def certificates(folder: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Make a certificate for these names; gives the server's context and one of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = dt.datetime.now(dt.UTC)
    alternatives = [x509.IPAddress(ip_address(name)) if name[0].isdigit() else x509.DNSName(name) for name in names]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoded = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "server.pem"
    file.write_bytes(private + encoded)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cadata=encoded.decode())
