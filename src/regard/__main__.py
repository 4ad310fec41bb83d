"""`python -m regard` is the command `regard`."""

from __future__ import annotations

import os
import sys

# Python puts the current folder first on the path, where a file of a stranger's run folder would be imported in place
# of a module that regard needs. `regard` itself has no such entry. Who types a dotted name, or trusts a run, may mean a
# module that lies here: then the folder comes last.
if sys.path and sys.path[0] in ("", os.getcwd()):
    here = sys.path.pop(0)
    if {"train", "demo", "list", "--trust"} & set(sys.argv[1:]):
        sys.path.append(here)

from regard.cli.main import main

main()
