"""A package of somebody else's: a task, a model, a score and a view, used by dotted names."""
