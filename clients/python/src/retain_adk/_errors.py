"""The errors of the client, one class for each reaction of a caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.errors.input_validation_error import InputValidationError

if TYPE_CHECKING:

    class SessionNotFoundError(ValueError):
        """The session does not exist, was deleted or has expired."""

else:
    try:
        from google.adk.errors.session_not_found_error import SessionNotFoundError
    except ImportError:  # google-adk before 2.0 raises a plain ValueError instead.

        class SessionNotFoundError(ValueError):
            """The session does not exist, was deleted or has expired."""


class RetainError(Exception):
    """The server rejected the request, failed or was unreachable.

    Attributes:
        status: The HTTP status, if there was an answer.
        code: The server's error code, such as `session_not_found`, if the answer has one.
        problem: The complete problem document (RFC 9457); empty if there was none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        problem: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.problem = problem or {}
        code = self.problem.get("code")
        self.code: str | None = code if isinstance(code, str) else None


class RetainUnavailableError(RetainError):
    """The server was unreachable or kept failing. A later retry may succeed."""


class RetainAccessError(RetainError):
    """The API key is missing, invalid, or lacks the permission."""


class RetainRequestError(RetainError, InputValidationError):
    """The server rejected the input as invalid. Also ADK's `InputValidationError`."""


class RetainConflictError(RetainError):
    """The request contradicts stored data, such as a known event id with another body."""


class RetainUnsupportedError(RetainError, NotImplementedError):
    """The server's store does not support the operation."""


def error_for(status: int, problem: dict[str, Any], text: str) -> RetainError:
    """Return the error for an answer with this status."""
    kinds: dict[int, type[RetainError]] = {
        400: RetainRequestError,
        401: RetainAccessError,
        403: RetainAccessError,
        409: RetainConflictError,
        413: RetainRequestError,
        415: RetainRequestError,
        422: RetainRequestError,
        429: RetainUnavailableError,
        501: RetainUnsupportedError,
        502: RetainUnavailableError,
        503: RetainUnavailableError,
        504: RetainUnavailableError,
    }
    detail = problem.get("detail") or problem.get("title") or text[:300] or "the answer has no text"
    kind = kinds.get(status, RetainError)
    return kind(f"{detail} (HTTP {status})", status=status, problem=problem)
