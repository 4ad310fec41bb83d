"""Who rated what: tables of users, items and ratings, with profiles, split so that nothing is learnt from the future."""
