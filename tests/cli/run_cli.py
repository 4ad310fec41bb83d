"""The command line, called inside the test's own process."""

from __future__ import annotations

import sys

from regard.cli.main import main


def call(*words: object) -> None:
    """Run `regard` with these words; ending with an error is a SystemExit, ending well is none."""
    before, sys.argv = sys.argv, ["regard", *map(str, words)]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before
