"""Artifacts: the same tests on ADK's own services and on Retain."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from backends import ADK_MAJOR, RETAIN_BACKENDS, Server
from google.adk.artifacts.file_artifact_service import FileArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

import retain_adk

pytestmark = pytest.mark.anyio

BYTES = bytes(range(256))


@dataclass(frozen=True)
class Artifacts:
    """An artifact service, and an app name that no other test uses."""

    name: str
    service: Any
    app: str

    @property
    def is_retain(self) -> bool:
        return self.name in RETAIN_BACKENDS

    def where(self, filename: str | None = None, session: str | None = "s") -> dict[str, Any]:
        place = {"app_name": self.app, "user_id": "ada", "session_id": session}
        return place if filename is None else {**place, "filename": filename}

    async def save(self, filename: str, text: str, session: str | None = "s", **more: Any) -> int:
        part = types.Part(text=text)
        return await self.service.save_artifact(
            **self.where(filename, session), artifact=part, **more
        )

    async def load(self, filename: str, session: str | None = "s", **more: Any) -> str | None:
        part = await self.service.load_artifact(**self.where(filename, session), **more)
        return None if part is None else part.text

    async def keys(self, session: str | None = "s") -> list[str]:
        return await self.service.list_artifact_keys(**self.where(session=session))


@pytest.fixture(params=["adk-memory", "adk-file", *RETAIN_BACKENDS])
async def artifacts(
    request: pytest.FixtureRequest, servers: dict[str, Server], tmp_path: Path, anyio_backend: str
) -> AsyncIterator[Artifacts]:
    app = f"app-{uuid.uuid4()}"
    if request.param == "adk-memory":
        yield Artifacts(request.param, InMemoryArtifactService(), app)
    elif request.param == "adk-file":
        yield Artifacts(request.param, FileArtifactService(root_dir=tmp_path), app)
    else:
        async with retain_adk.RetainArtifactService(servers[request.param].url) as service:
            yield Artifacts(request.param, service, app)


async def test_version_numbers_start_at_zero(artifacts: Artifacts) -> None:
    assert [await artifacts.save("f.txt", text) for text in "abc"] == [0, 1, 2]
    assert await artifacts.load("f.txt") == "c"
    assert [await artifacts.load("f.txt", version=n) for n in range(4)] == ["a", "b", "c", None]
    assert await artifacts.service.list_versions(**artifacts.where("f.txt")) == [0, 1, 2]


async def test_missing_artifact_is_none(artifacts: Artifacts) -> None:
    where = artifacts.where("nothing")
    assert await artifacts.load("nothing") is None
    assert await artifacts.keys() == []
    assert await artifacts.service.list_versions(**where) == []
    assert await artifacts.service.list_artifact_versions(**where) == []
    assert await artifacts.service.get_artifact_version(**where) is None
    await artifacts.service.delete_artifact(**where)


async def test_bytes_are_stored_exactly(artifacts: Artifacts) -> None:
    part = types.Part(inline_data=types.Blob(data=BYTES * 100, mime_type="image/png"))
    await artifacts.service.save_artifact(**artifacts.where("p.png"), artifact=part)
    loaded = await artifacts.service.load_artifact(**artifacts.where("p.png"))
    assert loaded.inline_data.data == BYTES * 100
    assert loaded.inline_data.mime_type == "image/png"
    version = await artifacts.service.get_artifact_version(**artifacts.where("p.png"))
    assert version.mime_type == "image/png"


async def test_sessions_have_own_files_and_share_the_users_files(
    artifacts: Artifacts,
) -> None:
    await artifacts.save("own.txt", "1")
    await artifacts.save("user:shared.txt", "2")
    await artifacts.save("own.txt", "3", session="t")
    assert await artifacts.load("own.txt") == "1"
    assert await artifacts.load("own.txt", session="t") == "3"
    assert await artifacts.load("user:shared.txt", session="t") == "2"
    assert await artifacts.load("user:shared.txt", session=None) == "2"
    listed = await artifacts.keys()
    # ADK's services list user files with or without the prefix.
    assert listed in (["own.txt", "user:shared.txt"], ["own.txt", "shared.txt"])
    if artifacts.is_retain:
        assert await artifacts.keys(None) in (["user:shared.txt"], ["shared.txt"])
    other = {**artifacts.where("user:shared.txt"), "user_id": "bob"}
    assert await artifacts.service.load_artifact(**other) is None


async def test_delete_removes_all_versions_of_a_file(artifacts: Artifacts) -> None:
    for name in ("a", "b", "user:c"):
        await artifacts.save(name, "1")
        await artifacts.save(name, "2")
    await artifacts.service.delete_artifact(**artifacts.where("a"))
    await artifacts.service.delete_artifact(**artifacts.where("user:c"))
    assert await artifacts.keys() == ["b"]
    assert await artifacts.load("a") is None
    assert await artifacts.load("user:c") is None
    assert await artifacts.load("b") == "2"
    assert await artifacts.save("a", "again") == 0


async def test_version_has_metadata_and_time(artifacts: Artifacts) -> None:
    await artifacts.save("f", "1")
    await artifacts.save("f", "2", custom_metadata={"snake_key": {"camelKey": 1}})
    first, second = await artifacts.service.list_artifact_versions(**artifacts.where("f"))
    assert (first.version, second.version) == (0, 1)
    assert first.custom_metadata == {}
    assert second.custom_metadata == {"snake_key": {"camelKey": 1}}
    assert second.create_time >= first.create_time > 1_600_000_000
    assert first.canonical_uri != second.canonical_uri
    get = artifacts.service.get_artifact_version
    # The file service of google-adk 1 reports the time of the request as the creation time.
    no_time = {"create_time"} if artifacts.name == "adk-file" and ADK_MAJOR < 2 else set()
    for found, wanted in (
        (await get(**artifacts.where("f"), version=0), first),
        (await get(**artifacts.where("f")), second),
    ):
        assert found.model_dump(exclude=no_time) == wanted.model_dump(exclude=no_time)
    assert await get(**artifacts.where("f"), version=7) is None


@pytest.mark.parametrize("name", ["a/b/c.txt", "ü ß 日本.txt", "100%.txt", "q?x=1&y#z", "a+b"])
async def test_unusual_file_names_are_stored_exactly(artifacts: Artifacts, name: str) -> None:
    await artifacts.save(name, "x")
    await artifacts.save(f"user:{name}", "y")
    assert await artifacts.load(name) == "x"
    assert await artifacts.load(f"user:{name}") == "y"
    assert name in await artifacts.keys()
    assert await artifacts.service.list_versions(**artifacts.where(name)) == [0]
    await artifacts.service.delete_artifact(**artifacts.where(name))
    assert await artifacts.load(name) is None


async def test_session_file_without_a_session_is_rejected(artifacts: Artifacts) -> None:
    if artifacts.name == "adk-file":  # stores it as a file of the user
        assert await artifacts.save("f", "x", session=None) == 0
        return
    with pytest.raises(InputValidationError):
        await artifacts.save("f", "x", session=None)


async def test_part_may_be_a_dict(artifacts: Artifacts) -> None:
    if not artifacts.is_retain and ADK_MAJOR < 2:
        return
    await artifacts.service.save_artifact(
        **artifacts.where("f"), artifact={"inlineData": {"data": "_-8=", "mimeType": "x/y"}}
    )
    loaded = await artifacts.service.load_artifact(**artifacts.where("f"))
    assert loaded.inline_data.data == b"\xff\xef"


async def test_empty_part_is_rejected(artifacts: Artifacts) -> None:
    with pytest.raises(InputValidationError):
        await artifacts.service.save_artifact(**artifacts.where("f"), artifact=types.Part())
    assert await artifacts.load("f") is None
