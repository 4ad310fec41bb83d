"""`regard answer`: the answers of any run, whatever its task."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb(), "Ask a run of any task: texts or files, or standard input line by line.")
