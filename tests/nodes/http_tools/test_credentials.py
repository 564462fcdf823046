"""Credentials are added when a request is sent, and are hidden in each response (W-08)."""

import asyncio
import json
import logging
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.fixtures.logged import logged
from tests.nodes.http_tools.hostile_api import calls, json_answer, serving_operation
from tests.outbound.peers import Received, text
from toolweave.errors import ApiCallFailed
from toolweave.nodes.http_tools.responses import EchoedSecrets

SECRET = 'k3y/with "all"+sörts & <of> %20\\'
PLAIN = "plain-secret_0451"


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_KEY", PLAIN)
    monkeypatch.setenv("TOOL_ODD", SECRET)
    monkeypatch.setenv("TOOL_LINE", f"{PLAIN}\n")
    monkeypatch.setenv("TOOL_USER", "admin")
    monkeypatch.setenv("TOOL_SHORT", "abc")
    monkeypatch.setenv("TOOL_NUMBER", "4217")
    monkeypatch.setenv("OTHER_KEY", "never-sent-secret")


def key(name: str = "X-Api-Key", value: str = "{env:TOOL_KEY}", location: str = "header") -> dict[str, Any]:
    return {"type": "api_key", "name": name, "value": value, "location": location}


async def test_a_key_in_the_query_is_encoded_and_stands_once() -> None:
    async with serving_operation(json_answer({}), auth=key("key", "{env:TOOL_ODD}", "query")) as api:
        await api.call(query={"key": "chosen by a model", "q": "x"})
    assert api.peer.requests[0].line == f"GET /thing?q=x&key={quote(SECRET, safe='*')} HTTP/1.1"


async def test_headers_that_are_credentials_are_added_and_win_over_others() -> None:
    headers = {"X-Token": "{env:TOOL_KEY}", "authorization": "static", "X-Plain": "in the specification already"}
    bearer = {"type": "bearer", "value": "b3arer-token"}
    async with serving_operation(json_answer({}), auth=bearer, headers=headers) as api:
        await api.call(headers={"x-token": "chosen by a model", "Authorization": "chosen too"})
    (request,) = api.peer.requests
    assert [value for name, value in request.headers if name.lower() == "x-token"] == [PLAIN]
    assert [value for name, value in request.headers if name.lower() == "authorization"] == ["Bearer b3arer-token"]


@pytest.mark.parametrize(
    ("api", "problem"),
    [
        ({"auth": key(value="{env:TOOL_MISSING}")}, "environment variable TOOL_MISSING is not set"),
        ({"auth": key(value="{env:OTHER_KEY}")}, "OTHER_KEY, which TOOLWEAVE_TOOL_ENV does not allow for 127.0.0.1"),
        ({"auth": key(value="{env:BAD-NAME}{env:TOOL_KEY}")}, "not of the form"),
        ({"auth": key(value="{env:TOOL_LINE}")}, "X-Api-Key has a character that headers cannot carry"),
        ({"auth": {"type": "basic", "value": "{env:TOOL_KEY}"}}, "not of the form name:password"),
    ],
)
async def test_an_unusable_credential_is_named_without_its_value(api: dict[str, Any], problem: str) -> None:
    async with serving_operation(json_answer({}), **api) as served:
        with pytest.raises(ApiCallFailed, match=problem) as raised:
            await served.call()
    assert (raised.value.executed, served.peer.requests) == (False, [])
    for secret in (PLAIN, SECRET, "never-sent"):
        assert secret not in str(raised.value)


async def test_a_variable_goes_to_the_host_that_it_is_bound_to_and_no_other() -> None:
    async with serving_operation(json_answer({}), auth=key()) as api:
        bound = calls(variables=f"TOOL_KEY@127.0.0.1:{api.peer.port}")
        assert (await api.call(bound)).status_code == 200
        for setting in ("TOOL_KEY@127.0.0.1", "TOOL_KEY@api.example", f"TOOL_KEY@127.0.0.1:{api.peer.port - 1}"):
            with pytest.raises(ApiCallFailed, match="does not allow"):
                await api.call(calls(variables=setting))
    assert len(api.peer.requests) == 1


def spellings(secret: str) -> list[str]:
    once = quote(secret, safe="")
    in_json = json.dumps(secret)[1:-1]
    in_html = escape(secret)
    return [
        *(secret, once, once.lower(), quote(secret), quote_plus(secret), quote(once, safe="")),
        *(in_json, json.dumps(secret, ensure_ascii=False)[1:-1], in_json.replace("/", "\\/")),
        json.dumps(in_json)[1:-1],
        *(re.sub(r"\\u....", lambda found: found.group().upper().replace("U", "u"), in_json), in_html),
        # What httpx, JavaScript, MarkupSafe and Go make of it.
        *(quote(secret, safe="*"), quote(secret, safe="!'()*"), in_html.replace("&#x27;", "&#39;")),
        *(in_html.replace("&quot;", "&#34;"), in_json.replace("&", "\\u0026").replace("<", "\\u003c")),
    ]


@pytest.mark.parametrize(
    "secret", [PLAIN, SECRET, "k9*z'&\"<!=", "x" * 5_000, "a/b" * 100, "ключ-пароль", "\U0001f511key-key"]
)
def test_a_secret_is_found_in_every_spelling(secret: str) -> None:
    echoes = EchoedSecrets([secret])
    for spelling in spellings(secret):
        assert echoes.occur_in(f"a{spelling}z"), spelling
        assert echoes.hide(f"a{spelling}z, {spelling}") == "a***z, ***", spelling
        assert echoes.hide_bytes(f"\udcff{spelling}".encode("utf-8", "surrogateescape")) == b"\xff***"


@pytest.mark.parametrize("secret", ["\\\\" * 50 + "x", "/" * 50 + "x", "%25" * 20, " " * 40 + "x"])
@pytest.mark.parametrize("flood", ["\\\\", '"', "%25", "\\\\u005c", "%255c", "+"])
async def test_a_flood_of_escapes_is_searched_in_bounded_time(secret: str, flood: str) -> None:
    echoes, text = EchoedSecrets([secret]), flood * 20_000
    looking = asyncio.to_thread(echoes.hide, text)
    assert len(await asyncio.wait_for(looking, 60)) <= len(text)


def test_a_short_secret_is_hidden_where_it_stands_alone_only() -> None:
    echoes = EchoedSecrets(["abc", "12345678"])
    assert echoes.hide("abc, key=abc&x abcd xabc Zabc9 a12345678b") == "***, key=***&x abcd xabc Zabc9 a***b"
    assert echoes.hide_number(12345678) == "***"
    assert echoes.hide_number(123456789) == 123456789
    assert EchoedSecrets(["secret-one", "secret-one-and-two"]).hide("secret-one-and-two") == "***"


def test_each_of_many_secrets_is_hidden() -> None:
    secrets = [f"{number}{'<&/+' * 49}" for number in range(100)]
    echoes = EchoedSecrets(secrets)
    for secret in secrets:
        assert echoes.hide(f"a {secret} {quote(secret, safe='')} {json.dumps(secret)} z") == 'a *** *** "***" z'


def echoing(status: str, kind: str) -> Any:
    """Repeat what was sent in a body of a kind, and in a header."""

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        headers = dict(request.headers)
        sent = {"line": request.line, "headers": headers}
        body = {
            "json": json.dumps(sent).encode(),
            "ascii": json.dumps({"nested": json.dumps(sent), **dict.fromkeys(headers.values(), 1)}).encode(),
            "html": f"<p>{escape(str(sent))}</p>".encode(),
            "bytes": b"\x00\xff" + json.dumps(sent).encode(),
        }[kind]
        repeated = next((f"X-{name}: {value}" for name, value in request.headers if name.lower() in SHOWN), "X-None: 1")
        writer.write(text(status, body, f"X-Line: {request.line}", repeated))

    return answer


SHOWN = ("x-api-key", "authorization")


def basic(text: str) -> str:
    return f"authorization: Basic {b64encode(text.encode()).decode()}"


AUTHS: list[tuple[dict[str, Any], str, str]] = [
    ({"auth": key()}, PLAIN, f"x-api-key: {PLAIN}"),
    ({"auth": key("key", "{env:TOOL_ODD}", "query")}, SECRET, f"GET /thing?key={quote(SECRET, safe='*')} HTTP/1.1"),
    ({"auth": {"type": "bearer", "value": "{env:TOOL_KEY}"}}, PLAIN, f"authorization: Bearer {PLAIN}"),
    ({"auth": {"type": "basic", "value": "{env:TOOL_USER}:{env:TOOL_ODD}"}}, SECRET, basic(f"admin:{SECRET}")),
    ({"auth": {"type": "basic", "value": f"{PLAIN}:"}}, PLAIN, basic(f"{PLAIN}:")),
    ({"headers": {"X-Api-Key": "Token {env:TOOL_KEY}, v=1"}}, PLAIN, f"x-api-key: Token {PLAIN}, v=1"),
]


@pytest.mark.requirement("W-08")
@pytest.mark.parametrize("kind", ["json", "ascii", "html", "bytes"])
@pytest.mark.parametrize(("api", "secret", "sent"), AUTHS, ids=str)
async def test_credentials_are_sent_and_hidden_when_an_api_repeats_them(
    api: dict[str, Any], secret: str, sent: str, kind: str
) -> None:
    encoded = [b64encode(f"{text}".encode()).decode() for text in (f"admin:{secret}", f"{secret}:")]
    looked_for = [*spellings(secret), *encoded]
    async with serving_operation(echoing("200 OK", kind), **api) as served:
        answer = await served.call()
        (request,) = served.peer.requests
        assert sent in [request.line, *(f"{name.lower()}: {value}" for name, value in request.headers)]
    async with serving_operation(echoing("403 Forbidden", kind), **api) as served:
        with pytest.raises(ApiCallFailed) as raised:
            await served.call(query={"q": secret})
    body = b64decode(answer.body).decode("latin-1") if answer.body_encoding else answer.body
    for shown in (body, answer.headers, raised.value, raised.value.response):
        assert not [each for each in looked_for if each in str(shown)]
    assert "***" in str(body)


async def test_a_number_that_is_a_credential_is_hidden_in_json() -> None:
    answer = json_answer({"pin": 4217, "n": 42170, "t": "4217"})
    async with serving_operation(answer, auth=key(value="{env:TOOL_NUMBER}")) as api:
        assert (await api.call()).body == {"pin": "***", "n": 42170, "t": "***"}


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("200 OK\r\n{} no header", "broke off"),
        # A host's name is written in lower case.
        ("302 Found\r\nLocation: http://{}.example/", "host is not the host"),
    ],
)
async def test_an_error_does_not_show_a_credential_in_the_head_of_the_answer(head: str, problem: str) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {head.format(request.header('x-api-key'))}\r\nContent-Length: 0\r\n\r\n".encode())

    async with serving_operation(answer, auth=key(value="Secret-as-a-Host")) as api:
        with pytest.raises(ApiCallFailed, match=problem) as raised:
            await api.call()
    assert "secret-as-a-host" not in str(raised.value).lower()
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


async def test_a_credential_in_the_name_of_a_header_is_hidden() -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(text("200 OK", b"", f"X-{request.header('x-api-key')}: 1"))

    async with serving_operation(answer, auth=key(value="Secret-as-a-Name")) as api:
        assert "secret-as-a-name" not in str((await api.call()).headers).lower()


@pytest.mark.parametrize("name", ["Ocp-Apim-Subscription-Key", "X-Auth", "X-Signature"])
async def test_a_static_header_named_like_a_credential_is_hidden(name: str) -> None:
    async with serving_operation(echoing("200 OK", "json"), headers={name: "opens-the-door"}) as api:
        answer = await api.call(by=calls())
    assert api.peer.requests[0].header(name.lower()) == "opens-the-door"
    assert api.tool.secret_headers == {name}
    assert "opens-the-door" not in f"{answer!r}{api.tool!r}"


@pytest.mark.parametrize("wrapped", ["{}", "x{}", 'user:{}", "next": "\xff\xfe'])
@pytest.mark.parametrize("coding", [b64encode, urlsafe_b64encode])
async def test_a_credential_that_an_api_repeats_in_base64_is_hidden(coding: Any, wrapped: str) -> None:
    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        sent = wrapped.format(request.header("x-api-key")).encode("latin-1")
        writer.write(json_answer({"isBase64Encoded": True, "body": coding(sent).decode()}))

    secret = "se>cr?et~key+/0451"
    async with serving_operation(answer, auth=key(value=secret)) as api:
        body = (await api.call()).body["body"]
    before, after = coding(wrapped.format(secret).encode("latin-1")).decode(), body.split("***")
    assert [before.startswith(after[0]), before.endswith(after[1])] == [True, True]
    assert len(before) - len(after[0]) - len(after[1]) >= len(secret) * 8 // 6 - 1


@pytest.mark.requirement("W-08")
async def test_nothing_logs_a_credential_or_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with logged(0, "{message} {extra}") as lines:
        async with serving_operation(echoing("200 OK", "json"), auth=key()) as api:
            await api.call()
        async with serving_operation(echoing("500 Oops", "json"), auth=key()) as api:
            with pytest.raises(ApiCallFailed):
                await api.call()
    assert PLAIN not in f"{lines}{caplog.text}"
