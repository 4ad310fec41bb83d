"""The Python API. `regard.load(folder)` and `regard.train(task, …)` give a `Run` that does all a model can do."""
