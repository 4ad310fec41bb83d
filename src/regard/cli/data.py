"""`regard data check PATH` and `regard data get NAME`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from regard.core.errors import DataError

SHOWN = 20  # findings of one kind and file that are printed; the rest is counted


def check(path: Path) -> None:
    """Print what is wrong with parallel text, by file and line; errors make it fail."""
    from regard.data import check as doctor

    found = doctor.check(path)
    printed: Counter[tuple[str, str]] = Counter()
    for finding in found:
        kind = (str(finding.file), finding.kind)
        printed[kind] += 1
        if printed[kind] <= SHOWN:
            print(finding)
    for (file, kind_name), count in printed.items():
        if count > SHOWN:
            print(f"{file}: … and {count - SHOWN} more findings of the kind {kind_name!r}")
    levels = Counter(finding.level for finding in found)
    print(f"{path}: {levels['error']} errors, {levels['warning']} warnings")
    if levels["error"]:
        raise DataError(f"{path}: {levels['error']} errors; mend them before training")


def get(name: str) -> None:
    """Download a data set, and print the folder it is in and its terms."""
    from regard.data import download

    print(f"{download.get(name)}\nterms: {download.SETS[name].terms}")
