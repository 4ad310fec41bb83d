from regard.data.builtin import word_lists


def test_similarity_pairs_are_unique():
    pairs = word_lists.similarities()
    assert len(pairs) > 120 and len({frozenset(pair[:2]) for pair in pairs}) == len(pairs)
    assert all(0 <= score <= 10 and first != second for first, second, score in pairs)
    assert all(word.isalpha() and word.islower() for pair in pairs for word in pair[:2])


def test_analogies_combine_all_pairs_of_a_group():
    groups = word_lists.analogies()
    assert ("man", "woman", "king", "queen") in groups["family"]
    assert sum(map(len, groups.values())) > 1000
    for questions in groups.values():
        assert len(set(questions)) == len(questions)
        assert all(a != c and b != d for a, b, c, d in questions)
