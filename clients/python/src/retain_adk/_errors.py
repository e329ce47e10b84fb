"""What can go wrong, by what a caller can do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.adk.errors.input_validation_error import InputValidationError

if TYPE_CHECKING:

    class SessionNotFoundError(ValueError):
        """There is no such session, or it was deleted or has expired."""

else:
    try:
        from google.adk.errors.session_not_found_error import SessionNotFoundError
    except ImportError:  # google-adk before 2.0 has no name for it, and raises a ValueError.

        class SessionNotFoundError(ValueError):
            """There is no such session, or it was deleted or has expired."""


class RetainError(Exception):
    """The server refused, failed or could not be asked.

    Attributes:
        status: The HTTP status, if there was an answer.
        code: The server's word for the kind of problem, if it has one.
        problem: The whole problem document (RFC 9457), empty if there was none.
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
    """The server could not be reached, or kept failing. Trying again later may help."""


class RetainAccessError(RetainError):
    """No key, a wrong one, or one that may not do this."""


class RetainRequestError(RetainError, InputValidationError):
    """The server cannot take the input as it is. Also ADK's `InputValidationError`."""


class RetainConflictError(RetainError):
    """What was sent does not fit what is stored, such as another event under a known id."""


class RetainUnsupportedError(RetainError, NotImplementedError):
    """The server's storage cannot do this at all."""


def error_for(status: int, problem: dict[str, Any], text: str) -> RetainError:
    """The error that an answer with this status means."""
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
    said = problem.get("detail") or problem.get("title") or text[:300] or "no explanation"
    kind = kinds.get(status, RetainError)
    return kind(f"{said} (HTTP {status})", status=status, problem=problem)
