"""Starts each server once for all tests, and provides the services for each test."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from backends import (
    RETAIN_BACKENDS,
    SESSION_BACKENDS,
    Backend,
    Server,
    adk_sessions,
    server_arguments,
    start_server,
)

import retain_adk


def pytest_configure() -> None:
    # A terminated test run still stops the servers that it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """Yield the servers by the name of their backend. Each starts when a test first uses it."""
    started = _Servers(tmp_path_factory)
    yield started
    for server in started.values():
        server.stop()


class _Servers(dict[str, Server]):
    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self.folders = folders

    def __missing__(self, name: str) -> Server:
        folder: Path = self.folders.mktemp(name)
        self[name] = start_server(folder, *server_arguments(name, folder))
        return self[name]


@pytest.fixture(params=SESSION_BACKENDS)
async def backend(
    request: pytest.FixtureRequest, servers: dict[str, Server], anyio_backend: str
) -> AsyncIterator[Backend]:
    """Run the test on every session service, one after the other."""
    name: str = request.param
    if name in RETAIN_BACKENDS:
        async with retain_adk.RetainSessionService(servers[name].url) as service:
            yield Backend(name, service)
        return
    with adk_sessions(name) as own:
        yield Backend(name, own)
        close = getattr(own, "close", None)
        if close is not None:
            await close()


@pytest.fixture(params=RETAIN_BACKENDS)
def url(request: pytest.FixtureRequest, servers: dict[str, Server]) -> str:
    """The URL of a Retain server: one in memory, then one on SQLite."""
    return servers[request.param].url


@pytest.fixture
async def retain(
    url: str, request: pytest.FixtureRequest, anyio_backend: str
) -> AsyncIterator[Backend]:
    """Run the test only on Retain."""
    async with retain_adk.RetainSessionService(url) as service:
        yield Backend("retain", service)
