"""`regard complete`: complete what is given: the rest of an image."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("complete"), "Complete what is given: the rest of an image.")
