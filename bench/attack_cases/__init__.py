"""Cases of bench/attacks.py, by what they attack."""
