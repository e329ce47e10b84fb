"""HTTP client: the server's URL, one connection pool per event loop, retries."""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from ._errors import RetainError, RetainRequestError, RetainUnavailableError, error_for

API_KEY_VARIABLE = "RETAIN_API_KEY"
DEFAULT_PORT = 8000
DEFAULT_TIMEOUT = 30.0

# Delays in seconds before the second, third … attempt; long enough for a server restart.
_DELAYS = (0.1, 0.3, 0.9, 2.7)
# Seconds during which the client retries after 429.
_RATE_LIMIT_TIMEOUT = 60.0
_LONGEST_WAIT = 10.0
_LONGEST_CONNECT = 5.0

# Nothing was sent, so a retry is always safe.
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# The server may have executed the request before the answer was lost.
_UNKNOWN = (httpx.NetworkError, httpx.RemoteProtocolError, httpx.TimeoutException)
_BUSY = {502, 503, 504}

_SCHEMES = {
    "http": "http",
    "https": "https",
    "retain": "http",
    "retain+http": "http",
    "retain+https": "https",
}


def base_url(address: str) -> str:
    """Return the HTTP URL for http://, https://, retain:// or retain+https://."""
    parts = urlsplit(address)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None:
        raise ValueError(
            f"unsupported server URL {address!r};"
            " expected http://HOST:PORT, https://HOST:PORT or retain://HOST:PORT"
        )
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "the server URL must not contain a user or password;"
            f" pass the key as api_key or in {API_KEY_VARIABLE}"
        )
    if not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"invalid server URL {address!r}; expected SCHEME://HOST:PORT")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = parts.port
    if port is None and parts.scheme.startswith("retain"):
        port = DEFAULT_PORT
    return f"{scheme}://{host}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def path(*segments: str) -> str:
    """Return a path below an app, with each segment percent-encoded."""
    return "/".join(map(_segment, segments))


def _segment(name: str) -> str:
    if name in (".", ".."):  # clients and proxies would resolve it as a relative path
        return name.replace(".", "%2E")
    try:
        return quote(name, safe="")
    except UnicodeEncodeError:
        raise RetainRequestError(f"invalid name {name!r}: it is not valid Unicode text") from None


def require_name(what: str, name: str) -> str:
    """Return `name`; raise if it is empty."""
    if not name:
        raise RetainRequestError(f"{what} must not be empty")
    return name


class Client:
    """Client of one server, usable from several event loops and threads."""

    def __init__(
        self,
        url: str | None,
        uri: str | None,
        *,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        if (url is None) == (uri is None):
            raise ValueError("pass the server URL exactly once, as url or as uri")
        self.url = base_url(url or uri or "")
        key = api_key if api_key is not None else os.environ.get(API_KEY_VARIABLE)
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connections: dict[
            asyncio.AbstractEventLoop,
            tuple[httpx.AsyncClient, AsyncGenerator[None, None]],
        ] = {}

    async def find(
        self,
        app: str,
        below: str,
        *,
        params: Mapping[str, str | int | float | None] | None = None,
        absent: str,
    ) -> bytes | None:
        """Read an object; return None if the server answers with the code `absent`."""
        try:
            return await self.call("GET", app, below, params=params)
        except RetainError as error:
            # Check the code and not the status: a server of another kind answers 404 to any path.
            if error.code == absent:
                return None
            raise

    async def call(
        self,
        method: str,
        app: str,
        below: str,
        *,
        body: bytes | None = None,
        params: Mapping[str, str | int | float | None] | None = None,
        repeatable: bool = True,
    ) -> bytes:
        """Send a request, retry it if that is safe, and raise for every error status.

        `repeatable` means that sending the request twice has the same effect as once.
        """
        url = f"{self.url}/api/v1/apps/{path(require_name('app name', app))}/{below}"
        given = {key: value for key, value in (params or {}).items() if value is not None}
        headers = {} if body is None else {"content-type": "application/json"}
        delays = iter(_DELAYS)
        deadline = asyncio.get_running_loop().time() + _RATE_LIMIT_TIMEOUT
        while True:
            client = await self._client()
            wait: float | None = None
            try:
                answer = await client.request(
                    method, url, content=body, params=given or None, headers=headers
                )
            except (*_UNSENT, *_UNKNOWN) as error:
                if repeatable or isinstance(error, _UNSENT):
                    wait = next(delays, None)
                if wait is None:
                    cause = str(error) or type(error).__name__
                    raise RetainUnavailableError(
                        f"no answer from the Retain server at {self.url}: {cause}"
                    ) from error
            else:
                if answer.status_code == 429:
                    can_wait = asyncio.get_running_loop().time() < deadline
                    wait = _retry_delay(answer, _DELAYS[0]) if can_wait else None
                elif repeatable and answer.status_code in _BUSY:
                    wait = next(delays, None)
                if wait is None:
                    return _success_content(answer)
            # Jitter, so that rejected clients do not retry at the same moment.
            await asyncio.sleep(wait * random.uniform(0.75, 1.25))

    async def close(self) -> None:
        """Close the connections of this event loop. Those of other loops end with their loop."""
        with self._lock:
            connection = self._connections.pop(asyncio.get_running_loop(), None)
        if connection is not None:
            await connection[1].aclose()

    async def _client(self) -> httpx.AsyncClient:
        """Return the HTTP client of the running event loop. A connection belongs to one loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            connection = self._connections.get(loop)
            if connection is not None:
                return connection[0]
            for gone in [other for other in self._connections if other.is_closed()]:
                del self._connections[gone]
            client = httpx.AsyncClient(
                headers=self._headers,
                # Do not load certificates for http, because that is slow.
                verify=self.url.startswith("https:"),
                # A task waits for a free connection of the pool without a timeout.
                timeout=httpx.Timeout(
                    self._timeout, connect=min(self._timeout, _LONGEST_CONNECT), pool=None
                ),
                limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
            )
            closer = _close_at_the_end(client)
            self._connections[loop] = (client, closer)
        # An event loop that ends closes its started generators, and this one closes the client.
        await closer.__anext__()
        return client


async def _close_at_the_end(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()


def _retry_delay(answer: httpx.Response, delay: float) -> float:
    try:
        requested = float(answer.headers.get("retry-after", ""))
    except ValueError:
        return delay
    return min(max(requested, delay), _LONGEST_WAIT)


def _success_content(answer: httpx.Response) -> bytes:
    if answer.is_success:
        return answer.content
    problem = _problem(answer)
    if answer.status_code == 404 and not problem:
        where = answer.request.url.copy_with(raw_path=b"/")
        raise RetainError(f"no Retain API at {where}; check the server URL", status=404)
    raise error_for(answer.status_code, problem, answer.text)


def _problem(answer: httpx.Response) -> dict[str, Any]:
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return {}
    try:
        problem = json.loads(answer.content)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}
