"""Experiments that measure claims about attention. Each is a module, registered under the name of its file.

A module has

    CLAIM                               the claim, in one or two sentences
    REFERENCE                           the paper that makes it, with the section
    cells(effort) -> list[Cell]         the measurements; each is stored, so that an experiment can be resumed
    verdict(figures) -> ClaimResult     the result for the claim, computed from the figures alone
    draw(figures, axes) -> None         a plot of the figures

`effort` is 1 for a quick run of about three minutes on two cores; more effort trains longer and repeats more.
"""
