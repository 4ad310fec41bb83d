"""One task a file (core/task.py says what such a file has), found by the file's name."""

FIRST = "translation"  # what `regard demo` shows where no task is named
