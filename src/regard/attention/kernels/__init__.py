"""Kernels: fast paths of `Attend` for one kind of mask or shape, each equal to the definition in `weigh.py`."""
