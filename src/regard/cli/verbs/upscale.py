"""`regard upscale`: enlarge images."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("upscale"), "Enlarge images.")
