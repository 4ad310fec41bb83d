"""Programs and data of each task for the browser, one file per task with the name of the task.

`describe(parts, constants)` returns the programs and everything that the task's JavaScript needs (js/tasks/).
"""
