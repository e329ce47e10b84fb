"""Run the real `adk web` and `adk api_server` on Retain with the README's services.yaml."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

import retain_adk

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
AGENT = """
import agents

root_agent = agents.shop()
"""


def services_yaml() -> str:
    """Return the services.yaml of the README."""
    readme = (HERE.parent / "README.md").read_text()
    (found,) = re.findall(r"```yaml\n(services:\n.*?)```", readme, re.DOTALL)
    return found


@asynccontextmanager
async def adk(command: str, folder: Path, url: str) -> AsyncIterator[httpx.AsyncClient]:
    """Run ADK's own server with its sessions, memory and artifacts on Retain."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = url.replace("http://", "retain://")
    kinds = ("session", "memory", "artifact")
    log = folder.parent / f"{command}.log"
    paths = [str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "google.adk.cli", command, "--port", str(port), "--no-reload"]
            + [f"--{kind}_service_uri={address}" for kind in kinds]
            + [str(folder)],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            for _ in range(600):
                assert process.poll() is None, log.read_text()
                try:
                    await http.get("/list-apps")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.1)
            try:
                yield http
            except BaseException:
                print(log.read_text())
                raise
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, 30)
    assert "Traceback" not in log.read_text(), log.read_text()


def message(text: str, app: str) -> dict[str, object]:
    return {
        "appName": app,
        "userId": "ada",
        "sessionId": "s",
        "newMessage": {"role": "user", "parts": [{"text": text}]},
    }


async def test_adk_web_and_api_server_store_everything_on_retain(
    servers: dict[str, object], tmp_path: Path
) -> None:
    url = servers["retain-sqlite"].url
    app = f"shop_{os.getpid()}_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / "agents"
    (folder / app).mkdir(parents=True)
    (folder / app / "__init__.py").write_text("from . import agent\n")
    (folder / app / "agent.py").write_text(AGENT)
    (folder / "services.yaml").write_text(services_yaml())
    here = f"/apps/{app}/users/ada/sessions"

    async with adk("web", folder, url) as http:
        assert app in (await http.get("/list-apps")).json()
        created = await http.post(here, json={"sessionId": "s", "state": {"started": True}})
        assert created.status_code == 200, created.text
        for text in ("hello", "an apple"):
            answer = await http.post("/run", json=message(text, app))
            assert answer.status_code == 200, answer.text
        async with http.stream(
            "POST", "/run_sse", json={**message("the rest", app), "streaming": True}
        ) as stream:
            lines = [line async for line in stream.aiter_lines() if line.startswith("data: ")]
        last = json.loads(lines[-1].removeprefix("data: "))
        assert last["content"]["parts"][0]["text"] == "Here is your receipt."
        seen = (await http.get(f"{here}/s")).json()
        names = (await http.get(f"{here}/s/artifacts")).json()
        assert "receipt.txt" in names

    sessions = retain_adk.RetainSessionService(url)
    stored = await sessions.get_session(app_name=app, user_id="ada", session_id="s")
    assert stored is not None
    assert [e.id for e in stored.events] == [e["id"] for e in seen["events"]]
    assert stored.state == seen["state"]
    assert stored.state["started"] is True

    # Another server reads the same session.
    async with adk("api_server", folder, url) as http:
        listed = (await http.get(here)).json()
        assert [s["id"] for s in listed] == ["s"]
        again = (await http.get(f"{here}/s")).json()
        assert again["events"] == seen["events"]
        ingested = await http.patch(f"/apps/{app}/users/ada/memory", json={"sessionId": "s"})
        assert ingested.is_success, ingested.text
        assert (await http.delete(f"{here}/s")).status_code == 200
        assert (await http.get(f"{here}/s")).status_code == 404
    memory = retain_adk.RetainMemoryService(url)
    found = await memory.search_memory(app_name=app, user_id="ada", query="receipt")
    assert found.memories
    assert await sessions.get_session(app_name=app, user_id="ada", session_id="s") is None
