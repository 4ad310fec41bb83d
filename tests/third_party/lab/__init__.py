"""A third-party package: a task, a model, a score and a view, used by dotted names."""
