"""Write measured text between two markers of a page: `<!-- name -->` and `<!-- end name -->`."""

from __future__ import annotations

from pathlib import Path


def put(page: Path, name: str, text: str) -> None:
    """Replace the text between the markers; the page must have them."""
    first, last = f"<!-- {name} -->", f"<!-- end {name} -->"
    before, start, rest = page.read_text(encoding="utf-8").partition(first)
    _, ended, after = rest.partition(last)
    if not (start and ended):
        raise SystemExit(f"{page}: there is no {first} with {last} after it to write between")
    page.write_text(f"{before}{first}\n\n{text.strip()}\n\n{last}{after}", encoding="utf-8")
