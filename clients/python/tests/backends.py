"""The services on which the tests run, and the known differences between them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.adk import version
from google.adk.sessions.base_session_service import BaseSessionService

ADK = tuple(int(part) for part in version.__version__.split(".")[:2])
ADK_MAJOR = ADK[0]

SESSION_BACKENDS = ("memory", "sqlite", "database", "retain-volatile", "retain-sqlite")
RETAIN_BACKENDS = ("retain-volatile", "retain-sqlite")


@dataclass(frozen=True)
class Backend:
    """A session service, and an app name that no other test uses."""

    name: str
    sessions: BaseSessionService
    app: str = field(default_factory=lambda: f"app-{uuid.uuid4()}")

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]

    @property
    def is_retain(self) -> bool:
        return self.kind == "retain"

    def expect(self, common: Any, **special: Any) -> Any:
        """Return the expected result for this service, if the services differ.

        A key of `special` is a kind (memory, sqlite, database, retain), a kind with a major version
        of google-adk (sqlite_1), or a version for all services of ADK (adk_1).
        """
        names = [f"{self.kind}_{ADK_MAJOR}", self.kind]
        if not self.is_retain:
            names.append(f"adk_{ADK_MAJOR}")
        return next((special[name] for name in names if name in special), common)

    async def create(self, user: str = "ada", **arguments: Any) -> Any:
        return await self.sessions.create_session(app_name=self.app, user_id=user, **arguments)

    async def get(self, id: str, user: str = "ada", **arguments: Any) -> Any:
        return await self.sessions.get_session(
            app_name=self.app, user_id=user, session_id=id, **arguments
        )

    async def delete(self, id: str, user: str = "ada") -> None:
        await self.sessions.delete_session(app_name=self.app, user_id=user, session_id=id)

    async def list(self, user: str | None = "ada") -> Any:
        return (await self.sessions.list_sessions(app_name=self.app, user_id=user)).sessions


@dataclass(frozen=True)
class Server:
    """A Retain server that the tests have started."""

    url: str
    process: subprocess.Popen[str]
    log: Path

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def start_server(folder: Path, *arguments: str, port: int = 0, **environment: str) -> Server:
    """Start the binary that RETAIN_BIN names, and wait until it listens."""
    log = folder / f"server-{uuid.uuid4()}.log"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RETAIN_")}
    with log.open("w") as out:
        process = subprocess.Popen(
            [binary(), "serve", "--port", str(port), *arguments],
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
            env={**inherited, **environment},
        )
    return Server(address(process, log), process, log)


def binary() -> str:
    """Return the path of the server's binary."""
    found = os.environ.get("RETAIN_BIN")
    if not found:
        raise RuntimeError(
            "RETAIN_BIN must name the server binary; cargo build creates target/debug/retain"
        )
    return str(Path(found).resolve())


def address(process: subprocess.Popen[str], log: Path, seconds: float = 60) -> str:
    """Return the URL that a server prints at startup."""
    import time

    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:[1-9]\d*", log.read_text())
        if found:
            return found.group()
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


def server_arguments(name: str, folder: Path) -> list[str]:
    """Return the arguments for the server of this backend."""
    if name == "retain-volatile":
        uris = {"session": "memory://", "memory": "memory://", "artifact": "memory://"}
    else:
        # By default, memory and artifacts are in the session store.
        uris = {"session": f"sqlite:///{folder / 'retain.db'}"}
    return [f"--{kind}-service-uri={uri}" for kind, uri in uris.items()]


@contextmanager
def adk_sessions(name: str) -> Iterator[BaseSessionService]:
    """Yield one of google-adk's own session services."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "memory":
            from google.adk.sessions.in_memory_session_service import InMemorySessionService

            yield InMemorySessionService()
        elif name == "sqlite":
            from google.adk.sessions.sqlite_session_service import SqliteSessionService

            yield SqliteSessionService(db_path=f"{folder}/adk.db")
        else:
            from google.adk.sessions.database_session_service import DatabaseSessionService

            yield DatabaseSessionService(db_url=f"sqlite+aiosqlite:///{folder}/adk.db")


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start another Python process with the same packages."""
    here = Path(__file__).parent
    paths = [str(here.parent / "src"), str(here), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
