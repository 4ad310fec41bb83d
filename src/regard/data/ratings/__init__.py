"""Ratings datasets: tables of users, items and ratings with profiles, and splits without leakage from the future."""
