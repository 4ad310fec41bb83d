"""Music datasets: readers for MIDI, MusicXML and JSON, two token encodings with their grammars, and writers."""
