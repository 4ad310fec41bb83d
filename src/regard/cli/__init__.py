"""The command line: a command is a file in commands/ or, for the verb of a task, in verbs/; main.py lists them."""
