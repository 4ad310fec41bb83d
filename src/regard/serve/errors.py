"""What a client is told where nothing is answered: a status and one line, never how our code looks inside."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from regard.core.cancellation import Cancelled
from regard.core.errors import RegardError
from regard.core.extras import require
from regard.serve.requests import NotFound
from regard.serve.scheduler import QueueFull, ShuttingDown

INTERNAL_ERROR_MESSAGE = "something went wrong in the server, which is not your mistake; its log says what"
API_PATHS = ("/api/", "/v1/", "/health", "/metrics", "/openapi.json")  # paths that no person reads


def status_of(error: Exception) -> int:
    """An error -> the status of its response."""
    kinds: dict[type[Exception], int] = {
        QueueFull: 429,
        ShuttingDown: 503,
        Cancelled: 503,
        NotFound: 404,
        RegardError: 400,
    }
    return next((status for kind, status in kinds.items() if isinstance(error, kind)), 500)


def error_message(error: Exception) -> str:
    """What is said of an error: its own line, where it is one of ours that a user can mend."""
    if isinstance(error, RegardError):
        return str(error)
    logging.getLogger("regard.serve").error("a request failed", exc_info=error)
    return INTERNAL_ERROR_MESSAGE


def headers_of(error: Exception) -> dict[str, str]:
    """When to come again."""
    status = status_of(error)
    return {"Retry-After": str(error.seconds if isinstance(error, QueueFull) else 1)} if status in (429, 503) else {}


def add_error_handlers(app: Any, page: Callable[[Any, str], str]) -> None:
    """Errors as one line of JSON, or as a page where somebody reads it."""
    responses = require("fastapi.responses", extra="serve")
    exceptions = require("fastapi.exceptions", extra="serve")

    def answer(request: Any, line: str, status: int, headers: dict[str, str] | None = None) -> Any:
        if request.url.path.startswith(API_PATHS):
            return responses.JSONResponse({"error": line}, status, headers)
        return responses.HTMLResponse(page(request, line), status, headers)

    def refused(request: Any, wrong: Exception) -> Any:
        return answer(request, error_message(wrong), status_of(wrong), headers_of(wrong))

    def missing(request: Any, _: Any) -> Any:
        return answer(request, f"there is no page {request.url.path[:80]!r} here", 404)

    def mistaken(request: Any, wrong: Any) -> Any:
        allowed = (wrong.headers or {}).get("Allow", "another method")
        return answer(request, f"{request.method[:20]} is not for this page; use {allowed}", 405, {"Allow": allowed})

    def unread(request: Any, wrong: Any) -> Any:
        names = ", ".join(sorted({str(part["loc"][-1]) for part in wrong.errors()}))
        return answer(request, f"a tile or a head is asked for by whole numbers; look at: {names}", 400)

    app.add_exception_handler(RegardError, refused)
    app.add_exception_handler(Exception, refused)
    app.add_exception_handler(404, missing)
    app.add_exception_handler(405, mistaken)
    app.add_exception_handler(exceptions.RequestValidationError, unread)
