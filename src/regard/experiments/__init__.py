"""Claims about attention, each as an experiment that measures it: one file an experiment, found by the file's name.

A file has

    CLAIM     what is said, in one sentence
    WHERE     where it is said: the paper, with its section
    cells(effort) -> list[Cell]         what is to be measured, each part by itself, so that all can be gone on with
    verdict(figures) -> Verdict         what the numbers say about the claim, computed from them alone
    draw(figures, axes) -> None         the numbers as a plot

`effort` is 1 for a quick look of at most three minutes on two cores; ten times as much trains and repeats more.
"""
