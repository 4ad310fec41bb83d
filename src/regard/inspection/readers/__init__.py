"""One reader a task, found by the task's name: `read(task, model, text, *, decode) -> Example`."""
