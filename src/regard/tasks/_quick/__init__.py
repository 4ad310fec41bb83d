"""Tasks that can be answered without torch, one file a task, under the task's name: how texts become rows of tokens,
and rows of tokens answers. What searches between them is the affair of whoever asks (core/quick.py)."""
