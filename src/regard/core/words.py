"""Numbers with the word for what is counted."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """'1 error', '1,200 errors'."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")
