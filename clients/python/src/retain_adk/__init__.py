"""Google's Agent Development Kit for Python on a Retain server.

Three services for an ADK `Runner`, `adk web` or `adk api_server`:

    Runner(session_service=RetainSessionService("http://127.0.0.1:8000"), ...)
"""

from ._errors import (
    RetainAccessError,
    RetainConflictError,
    RetainError,
    RetainRequestError,
    RetainUnavailableError,
    RetainUnsupportedError,
    SessionNotFoundError,
)
from .artifacts import RetainArtifactService
from .memory import RetainMemoryService
from .sessions import RetainSessionService

__version__ = "0.1.0"

__all__ = [
    "RetainAccessError",
    "RetainArtifactService",
    "RetainConflictError",
    "RetainError",
    "RetainMemoryService",
    "RetainRequestError",
    "RetainSessionService",
    "RetainUnavailableError",
    "RetainUnsupportedError",
    "SessionNotFoundError",
]
