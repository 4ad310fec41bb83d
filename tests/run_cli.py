"""Call the command line in the process of the test."""

from __future__ import annotations

import sys

from regard.cli.main import main


def call(*args: object) -> None:
    """Run `regard` with these arguments; SystemExit is raised only if the exit code is not 0."""
    before, sys.argv = sys.argv, ["regard", *map(str, args)]
    try:
        main()
    except SystemExit as exit_:
        if exit_.code:
            raise
    finally:
        sys.argv = before
