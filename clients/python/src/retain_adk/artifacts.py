"""Artifacts: `RetainArtifactService`."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from google.adk.artifacts.base_artifact_service import ArtifactVersion, BaseArtifactService
from google.genai import types
from pydantic import BaseModel

from . import _wire
from ._client import DEFAULT_TIMEOUT, Client, path, require_name

# The server's error code for a missing file or version.
_ARTIFACT_NOT_FOUND = "artifact_not_found"


class _Names(BaseModel):
    names: list[str]


class _Versions(BaseModel):
    versions: list[ArtifactVersion]


class RetainArtifactService(BaseArtifactService):
    """ADK artifacts on a Retain server: versioned files.

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
        """Create the service; the arguments are those of `RetainSessionService`."""
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
        """Save a new version and return its number; the first is 0."""
        part = types.Part.model_validate(artifact) if isinstance(artifact, dict) else artifact
        answer = await self._client.call(
            "POST",
            app_name,
            _scope(user_id, session_id),
            body=_wire.json_object(
                filename=_wire.json_value(filename),
                artifact=_wire.object_json(part),
                custom_metadata=_wire.json_value(custom_metadata),
            ),
            # A retry could save a second version.
            repeatable=False,
        )
        return _wire.parse(ArtifactVersion, answer).version

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Load a version of the file, the newest by default; None if it does not exist."""
        if version is not None and version < 0:
            return None
        answer = await self._client.find(
            app_name,
            f"{_scope(user_id, session_id)}/load",
            params={"name": filename, "version": version},
            absent=_ARTIFACT_NOT_FOUND,
        )
        return None if answer is None else _wire.parse(types.Part, answer)

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """List the names of the session's and the user's files; without a session, the user's."""
        answer = await self._client.call("GET", app_name, _scope(user_id, session_id))
        return _wire.parse(_Names, answer).names

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete the file with all its versions; do nothing if it does not exist."""
        await self._client.call(
            "DELETE",
            app_name,
            _scope(user_id, session_id),
            params={"name": filename},
        )

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """List the version numbers of the file."""
        versions = await self.list_artifact_versions(
            app_name=app_name, user_id=user_id, filename=filename, session_id=session_id
        )
        return [version.version for version in versions]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """List the versions of the file with their metadata."""
        answer = await self._client.call(
            "GET",
            app_name,
            f"{_scope(user_id, session_id)}/versions",
            params={"name": filename},
        )
        return _wire.parse(_Versions, answer).versions

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the metadata of a version, the newest by default; None if it does not exist."""
        if version is not None and version < 0:
            return None
        answer = await self._client.find(
            app_name,
            f"{_scope(user_id, session_id)}/version",
            params={"name": filename, "version": version},
            absent=_ARTIFACT_NOT_FOUND,
        )
        return None if answer is None else _wire.parse(ArtifactVersion, answer)

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
    user = f"users/{path(require_name('user id', user_id))}"
    if session_id is None:
        return f"{user}/artifacts"
    return f"{user}/sessions/{path(require_name('session id', session_id))}/artifacts"
