"""Who rated what: tables of users, items and ratings, with profiles; nothing is learnt from the future."""
