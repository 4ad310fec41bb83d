"""Decoding strategies, one per file; the file name is the name in `[decoding]`."""
