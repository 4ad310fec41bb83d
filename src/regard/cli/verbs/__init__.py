"""The verbs of tasks as commands, one file each: a name, a line of help, and how answers are printed."""
