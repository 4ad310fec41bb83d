"""The command line: one file a verb, each with `run`; main.py gives them their options."""
