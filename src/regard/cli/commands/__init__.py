"""Commands that work for every task, one file each: a function `run`, and nothing of torch at the top."""
