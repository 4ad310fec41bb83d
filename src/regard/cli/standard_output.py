"""Standard output that never ends in a traceback: a full disk, a closed pipe, characters the terminal cannot show.

Write errors become an OutputError of one line. A character that the encoding of the terminal does not have is replaced.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from regard.core.errors import RegardError


class OutputError(RegardError):
    """Standard output could not be written, for example because the disk is full."""


class ClosedPipe(OutputError):
    """The reader of standard output closed the pipe, as `head` does. This is not reported."""

    code = 128 + getattr(signal, "SIGPIPE", 13)  # the status of a program that SIGPIPE ended


class GuardedOutput(io.TextIOWrapper):
    """A text stream whose write errors are OutputErrors."""

    def write(self, text: str) -> int:
        """Write a text."""
        with _as_output_error():
            return super().write(text)

    def flush(self) -> None:
        """Flush the buffer."""
        with _as_output_error():
            super().flush()


@contextmanager
def _as_output_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise ClosedPipe("standard output: the reader closed the pipe") from None
    except OSError as error:
        raise OutputError(f"standard output: could not be written ({error.strerror}); free space and repeat") from None


@contextmanager
def guarded_output() -> Iterator[None]:
    """Guard sys.stdout inside the block. Streams that a test or a program has replaced are left alone."""
    original: Any = sys.stdout
    if type(original) is not io.TextIOWrapper:
        yield
        return
    original.flush()
    guarded = GuardedOutput(
        original.buffer,
        encoding=original.encoding,
        errors="replace",
        line_buffering=original.line_buffering,
        write_through=original.write_through,
    )
    sys.stdout = guarded
    try:
        yield
        guarded.flush()
    except OutputError:
        _discard_output(guarded)
        raise
    finally:
        sys.stdout = original
        with suppress(OutputError):
            guarded.flush()
        with suppress(OutputError, ValueError):
            guarded.detach()


def _discard_output(stream: io.TextIOWrapper) -> None:
    """Redirect the file of a stream to nowhere, so that Python does not fail to flush it at exit."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
