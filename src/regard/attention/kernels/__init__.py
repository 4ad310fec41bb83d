"""Kernels that compute `Attend` for one kind of mask or shape, each equal to the definition in `weigh.py`."""
