"""Music: notes read from MIDI, MusicXML and JSON, two encodings with their grammars, and files written back."""
