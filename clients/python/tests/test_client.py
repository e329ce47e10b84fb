"""The HTTP client: URLs, API keys, lost answers, event loops."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from backends import Backend, server_arguments, start_server
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types

import retain_adk
from retain_adk import _client
from retain_adk._client import Client, base_url


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://host", "http://host"),
        ("https://host/below/", "https://host/below"),
        ("retain://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("retain://host", "http://host:8000"),
        ("retain://[::1]:81/", "http://[::1]:81"),
        ("retain+https://host:8443", "https://host:8443"),
    ],
)
def test_base_url_accepts_supported_schemes(given: str, wanted: str) -> None:
    assert base_url(given) == wanted


@pytest.mark.parametrize(
    "given",
    [
        "",
        "host:8000",
        "sqlite:///x.db",
        "http://",
        "http://key@host",
        "http://host?x=1",
        "http://h#x",
    ],
)
def test_base_url_rejects_invalid_urls(given: str) -> None:
    with pytest.raises(ValueError):
        base_url(given)


@pytest.mark.parametrize(
    "service",
    [
        retain_adk.RetainSessionService,
        retain_adk.RetainMemoryService,
        retain_adk.RetainArtifactService,
    ],
)
def test_services_accept_the_arguments_of_adks_registry(service: Callable[..., object]) -> None:
    service(uri="retain://127.0.0.1:8000", agents_dir="agents", per_agent=True)
    service("http://127.0.0.1:8000", api_key="k", timeout=3)
    with pytest.raises(ValueError, match="once"):
        service()
    with pytest.raises(ValueError, match="once"):
        service("http://a", uri="http://a")


@asynccontextmanager
async def proxy(url: str, fate: Callable[[int], str]) -> AsyncIterator[str]:
    """Run a proxy in front of the real server; `fate` chooses what happens to the n-th request.

    pass: forward it; lose-answer: forward it and disconnect; lose-request: disconnect immediately;
    busy: answer 503; slow-down: answer 429.
    """
    target = urlsplit(url)
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        try:
            request = await one_message(reader)
            count += 1
            what = fate(count)
            if what == "lose-request":
                return
            if what in ("busy", "slow-down"):
                status = b"503 Busy" if what == "busy" else b"429 Too Many\r\nretry-after: 0"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                return
            onward, back = await asyncio.open_connection(target.hostname, target.port)
            host = f"{target.hostname}:{target.port}".encode()
            lines = [
                b"host: " + host if line.lower().startswith(b"host:") else line
                for line in request.partition(b"\r\n\r\n")[0].split(b"\r\n")
            ]
            back.write(b"\r\n".join(lines) + b"\r\n\r\n" + request.partition(b"\r\n\r\n")[2])
            answer = await one_message(onward)
            back.close()
            if what == "pass":
                head, _, rest = answer.partition(b"\r\n\r\n")
                writer.write(head + b"\r\nconnection: close\r\n\r\n" + rest)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def one_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    return head + (await reader.readexactly(length) if length else b"")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_client, "_DELAYS", (0.01, 0.01, 0.01, 0.01))


def user_event(text: str) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=EventActions(state_delta={text: 1}))


@pytest.mark.anyio
@pytest.mark.parametrize("bad", ["lose-answer", "lose-request", "busy", "slow-down"])
async def test_append_is_stored_once_despite_failures(
    retain: Backend, url: str, quick: None, bad: str
) -> None:
    """Each event is stored once, even if two of three requests fail."""
    await retain.create(session_id="s")
    where = {"app_name": retain.app, "user_id": "ada", "session_id": "s"}
    async with (
        proxy(url, lambda n: "pass" if n % 3 == 0 else bad) as proxy_url,
        retain_adk.RetainSessionService(proxy_url) as service,
    ):
        session = await service.get_session(**where)
        assert session is not None
        for n in range(7):
            await service.append_event(session, user_event(str(n)))
        created = await service.create_session(app_name=retain.app, user_id="ada", state={"a": 1})
    got = await retain.get("s")
    assert [e.content.parts[0].text for e in got.events] == list("0123456")
    assert got.events == session.events
    assert got.state == session.state
    assert (await retain.get(created.id)).state == created.state == {"a": 1}
    assert len(await retain.list()) == 2


@pytest.mark.anyio
async def test_rate_limited_request_is_retried_until_the_timeout(
    retain: Backend, url: str, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client retries a rate-limited request, and raises after its timeout."""
    session = await retain.create(session_id="s")
    async with (
        proxy(url, lambda n: "pass" if n % 20 == 0 else "slow-down") as proxy_url,
        retain_adk.RetainSessionService(proxy_url) as service,
    ):
        for n in range(3):
            await service.append_event(session, user_event(str(n)))
        monkeypatch.setattr(_client, "_RATE_LIMIT_TIMEOUT", 0.05)
        with pytest.raises(retain_adk.RetainUnavailableError, match="429"):
            await service.append_event(session, user_event("3"))
    assert len((await retain.get("s")).events) == len(session.events) == 3


@pytest.mark.anyio
async def test_save_is_not_retried_when_its_answer_is_lost(
    retain: Backend, url: str, quick: None
) -> None:
    where = {"app_name": retain.app, "user_id": "ada", "filename": "user:f"}
    async with (
        proxy(url, lambda n: "lose-answer" if n == 1 else "pass") as proxy_url,
        retain_adk.RetainArtifactService(proxy_url) as service,
    ):
        with pytest.raises(retain_adk.RetainUnavailableError):
            await service.save_artifact(**where, artifact=types.Part(text="x"))
        assert await service.list_versions(**where) == [0]


@pytest.mark.anyio
async def test_failed_append_changes_neither_session_nor_event(
    retain: Backend, url: str, quick: None
) -> None:
    session = await retain.create(session_id="s", state={"a": 1})
    async with (
        proxy(url, lambda n: "lose-request") as proxy_url,
        retain_adk.RetainSessionService(proxy_url) as service,
    ):
        event = user_event("x")
        event.actions.state_delta["temp:t"] = 1
        before = (session.model_dump(), event.model_dump())
        with pytest.raises(retain_adk.RetainUnavailableError):
            await service.append_event(session, event)
        assert (session.model_dump(), event.model_dump()) == before
    await retain.sessions.append_event(session, event)
    assert session.state == {"a": 1, "x": 1, "temp:t": 1}


@pytest.mark.anyio
async def test_writers_lose_nothing_when_the_server_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill and restart the server while tasks append: each event is stored once and in order."""
    monkeypatch.setattr(_client, "_DELAYS", (0.1,) * 300)
    arguments = server_arguments("retain-sqlite", tmp_path)
    server = await asyncio.to_thread(start_server, tmp_path, *arguments)
    port = urlsplit(server.url).port
    assert port is not None
    where = {"app_name": "a", "user_id": "u", "session_id": "s"}
    try:
        async with retain_adk.RetainSessionService(server.url) as service:
            await service.create_session(**where)

            async def write(who: int) -> None:
                session = await service.get_session(**where)
                assert session is not None
                for n in range(40):
                    await service.append_event(session, user_event(f"{who}-{n}"))
                    stored.append(f"{who}-{n}")
                    if len(stored) in (50, 120):
                        server.process.kill()

            stored: list[str] = []
            writers = [asyncio.create_task(write(who)) for who in range(5)]
            for _ in range(2):
                await asyncio.to_thread(server.process.wait)
                assert not all(writer.done() for writer in writers)
                server = await asyncio.to_thread(start_server, tmp_path, *arguments, port=port)
            await asyncio.gather(*writers)
            session = await service.get_session(**where)
    finally:
        server.stop()
    assert session is not None
    assert len(stored) == 200
    stored = [e.content.parts[0].text for e in session.events]
    assert sorted(stored) == sorted(f"{who}-{n}" for who in range(5) for n in range(40))
    for who in range(5):
        assert [t for t in stored if t.startswith(f"{who}-")] == [f"{who}-{n}" for n in range(40)]
    assert set(session.state) == set(stored)


@pytest.mark.anyio
async def test_unreachable_server_is_unavailable(quick: None) -> None:
    async with retain_adk.RetainSessionService("http://127.0.0.1:1", timeout=1) as service:
        with pytest.raises(retain_adk.RetainUnavailableError, match=r"127\.0\.0\.1:1"):
            await service.get_session(app_name="a", user_id="u", session_id="s")


async def answer_not_found(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await one_message(reader)
    body = json.dumps({"detail": "Not Found"}).encode()
    head = f"HTTP/1.1 404 No\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    writer.write(head.encode() + b"connection: close\r\n\r\n" + body)
    await writer.drain()
    writer.close()


@pytest.mark.anyio
async def test_server_of_another_kind_raises_instead_of_none() -> None:
    """A server without Retain's API answers 404, which must not mean that no session exists."""
    server = await asyncio.start_server(answer_not_found, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with retain_adk.RetainSessionService(url) as service:
        with pytest.raises(retain_adk.RetainError, match="no Retain API"):
            await service.get_session(app_name="a", user_id="u", session_id="s")
    server.close()


@pytest.mark.anyio
async def test_api_key_is_required_and_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "test-key-of-the-python-client-0123456789abcdef"
    uris = [f"--{kind}-service-uri=memory://" for kind in ("session", "memory", "artifact")]
    server = await asyncio.to_thread(start_server, tmp_path, *uris, RETAIN_API_KEY=secret)
    where = {"app_name": "a", "user_id": "u"}
    try:
        for key in (None, "wrong"):
            async with retain_adk.RetainSessionService(server.url, api_key=key) as service:
                with pytest.raises(retain_adk.RetainAccessError):
                    await service.list_sessions(**where)
        async with retain_adk.RetainSessionService(server.url, api_key=secret) as service:
            assert (await service.list_sessions(**where)).sessions == []
        monkeypatch.setenv("RETAIN_API_KEY", secret)
        async with retain_adk.RetainMemoryService(server.url) as memory:
            assert (await memory.search_memory(**where, query="x")).memories == []
        assert secret not in repr(vars(memory))
    finally:
        server.stop()


def test_each_event_loop_has_its_own_connections_and_closes_them(
    servers: dict[str, object],
) -> None:
    client = Client(servers["retain-volatile"].url, None)
    service = retain_adk.RetainSessionService(client.url)
    service._client = client
    held = []

    async def use() -> None:
        assert (await service.list_sessions(app_name="nobody", user_id="u")).sessions == []
        held.append(await client._client())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            asyncio.run(use())
            gc.collect()
    assert len({id(http) for http in held}) == 3
    assert all(http.is_closed for http in held)
    assert (
        len(client._connections) == 1
    )  # entries of closed loops are removed when another loop connects


def test_closed_service_connects_again(servers: dict[str, object]) -> None:
    async def use() -> None:
        service = retain_adk.RetainSessionService(servers["retain-volatile"].url)
        for _ in range(2):
            assert (await service.list_sessions(app_name="nobody")).sessions == []
            await service.close()
        await service.close()

    asyncio.run(use())
