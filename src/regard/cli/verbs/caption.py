"""`regard caption`: images in, sentences out; --out overlay.png shows where was looked for each word."""

from __future__ import annotations

from regard.cli.arguments import USE
from regard.cli.asking import Asking, Verb, command

PANEL = USE
Command = Asking
run = command(Verb("caption", "image", "captions"), "Say what is in images; --out x.png shows where each word looked.")
