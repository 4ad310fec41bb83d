"""Mapping of exceptions to an HTTP status and a one-line message; internal details are never exposed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from regard.core.cancellation import Cancelled
from regard.core.errors import RegardError
from regard.core.extras import require
from regard.inspection.html_bundle import policy_of
from regard.serve.middleware import NO_FRAMES
from regard.serve.requests import NotFound
from regard.serve.scheduler import QueueFull, ShuttingDown, WorkersOverdue

INTERNAL_ERROR_MESSAGE = "internal server error; see the log of the server"
API_PATHS = ("/api/", "/v1/", "/health", "/metrics", "/openapi.json")  # paths whose errors are JSON, not pages


class Unprocessable(RegardError):
    """A request of the right form that the run cannot process: status 422."""


def as_unprocessable(error: RegardError) -> RegardError:
    """Return an error of a request whose form was right; one with a status of its own is unchanged."""
    return Unprocessable(str(error)) if status_of(error) == 400 else error


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error."""
    statuses: dict[type[Exception], int] = {
        QueueFull: 429,
        ShuttingDown: 503,
        WorkersOverdue: 503,
        Cancelled: 503,
        NotFound: 404,
        Unprocessable: 422,
        RegardError: 400,
    }
    return next((status for kind, status in statuses.items() if isinstance(error, kind)), 500)


def error_message(error: Exception) -> str:
    """Return the message of an error for the client. Unexpected errors are logged, and not described."""
    if isinstance(error, RegardError):
        return str(error)
    logging.getLogger("regard.serve").error("a request failed", exc_info=error)
    return INTERNAL_ERROR_MESSAGE


def headers_of(error: Exception) -> dict[str, str]:
    """Return the Retry-After header for errors that a retry may solve."""
    status = status_of(error)
    return {"Retry-After": str(error.seconds if isinstance(error, QueueFull) else 1)} if status in (429, 503) else {}


def policy_headers(page: str) -> dict[str, str]:
    """Return the header with the content security policy of an HTML page; no other page may frame it."""
    return {"Content-Security-Policy": f"{policy_of(page)}; {NO_FRAMES}"}


def add_error_handlers(app: Any, page: Callable[[Any, str], str]) -> None:
    """Return errors as one line of JSON, or as an HTML page for paths that a browser shows."""
    responses = require("fastapi.responses", extra="serve")
    exceptions = require("fastapi.exceptions", extra="serve")

    def respond(request: Any, message: str, status: int, headers: dict[str, str] | None = None) -> Any:
        if request.url.path.startswith(API_PATHS):
            return responses.JSONResponse({"error": message}, status, headers)
        content = page(request, message)
        return responses.HTMLResponse(content, status, {**(headers or {}), **policy_headers(content)})

    def on_error(request: Any, error: Exception) -> Any:
        return respond(request, error_message(error), status_of(error), headers_of(error))

    def on_not_found(request: Any, _: Any) -> Any:
        return respond(request, f"no page {request.url.path[:80]!r} on this server", 404)

    def on_wrong_method(request: Any, error: Any) -> Any:
        allowed = (error.headers or {}).get("Allow", "another method")
        message = f"method {request.method[:20]} is not allowed; use {allowed}"
        return respond(request, message, 405, {"Allow": allowed})

    def on_invalid_query(request: Any, error: Any) -> Any:
        names = ", ".join(sorted({str(part["loc"][-1]) for part in error.errors()}))
        return respond(request, f"the indices of a tile or a head must be integers; check: {names}", 400)

    app.add_exception_handler(RegardError, on_error)
    app.add_exception_handler(Exception, on_error)
    app.add_exception_handler(404, on_not_found)
    app.add_exception_handler(405, on_wrong_method)
    app.add_exception_handler(exceptions.RequestValidationError, on_invalid_query)
