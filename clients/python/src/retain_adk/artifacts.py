"""Files beside the conversation: `RetainArtifactService`."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.genai import types
from pydantic import BaseModel

from . import _wire
from ._client import DEFAULT_TIMEOUT, Client, named, path

# What the server calls a file or a version that is not there.
_ARTIFACT_NOT_FOUND = "artifact_not_found"


class _Names(BaseModel):
    names: list[str]


class _Versions(BaseModel):
    versions: list[ArtifactVersion]


class RetainArtifactService(BaseArtifactService):
    """Versioned files, kept by a Retain server.

    A file belongs to a session, or to the user if its name begins with `user:`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        uri: str | None = None,
        api_key: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        **_options: Any,
    ) -> None:
        """Makes the service; the arguments are those of `RetainSessionService`."""
        self._client = Client(url, uri, api_key=api_key, timeout=timeout)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Keeps a new version and returns its number; the first is 0."""
        part = types.Part.model_validate(artifact) if isinstance(artifact, dict) else artifact
        answer = await self._client.call(
            "POST",
            app_name,
            _scope(user_id, session_id),
            body=_wire.body(
                filename=_wire.plain(filename),
                artifact=_wire.object_json(part),
                custom_metadata=_wire.plain(custom_metadata),
            ),
            # Saved twice would be two versions.
            repeatable=False,
        )
        return _wire.read(ArtifactVersion, answer).version

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """A version of the file, the newest by default."""
        if version is not None and version < 0:
            return None
        answer = await self._client.find(
            app_name,
            f"{_scope(user_id, session_id)}/load",
            params={"name": filename, "version": version},
            absent=_ARTIFACT_NOT_FOUND,
        )
        return None if answer is None else _wire.read(types.Part, answer)

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """The names of the session's files and the user's, or of the user's alone."""
        answer = await self._client.call("GET", app_name, _scope(user_id, session_id))
        return _wire.read(_Names, answer).names

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Deletes the file with all of its versions; nothing happens if there is none."""
        await self._client.call(
            "DELETE",
            app_name,
            _scope(user_id, session_id),
            params={"name": filename},
        )

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of the versions that there are."""
        versions = await self.list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )
        return [version.version for version in versions]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """The versions that there are, with what is noted of each."""
        answer = await self._client.call(
            "GET",
            app_name,
            f"{_scope(user_id, session_id)}/versions",
            params={"name": filename},
        )
        return _wire.read(_Versions, answer).versions

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """What is noted of a version, the newest by default."""
        if version is not None and version < 0:
            return None
        answer = await self._client.find(
            app_name,
            f"{_scope(user_id, session_id)}/version",
            params={"name": filename, "version": version},
            absent=_ARTIFACT_NOT_FOUND,
        )
        return None if answer is None else _wire.read(ArtifactVersion, answer)

    async def close(self) -> None:
        """Close the connections of this event loop; otherwise they end with the loop."""
        await self._client.close()

    async def __aenter__(self) -> RetainArtifactService:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _scope(user_id: str, session_id: str | None) -> str:
    user = f"users/{path(named('user id', user_id))}"
    if session_id is None:
        return f"{user}/artifacts"
    return f"{user}/sessions/{path(named('session id', session_id))}/artifacts"
