"""`python -m regard` is the command `regard`."""

from __future__ import annotations

import os
import sys

# Python puts the current folder first on the path: a file in an untrusted run folder would replace a module that regard
# imports. The command `regard` has no such entry. Commands that accept dotted names, and trusted runs, may import
# modules from the current folder: for them it is moved to the end of the path.
if sys.path and sys.path[0] in ("", os.getcwd()):
    current_folder = sys.path.pop(0)
    if {"train", "demo", "list", "--trust"} & set(sys.argv[1:]):
        sys.path.append(current_folder)

from regard.cli.main import main

main()
