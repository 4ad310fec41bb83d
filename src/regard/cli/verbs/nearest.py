"""`regard nearest`: words in, the words nearest to them out; sums of words too."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("nearest", "words", "nearest"), "The words nearest to a word, or to a sum: king - man + woman.")
