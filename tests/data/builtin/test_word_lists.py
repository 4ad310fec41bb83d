from regard.data.builtin import word_lists


def test_likeness_is_said_of_many_different_pairs():
    pairs = word_lists.similarities()
    assert len(pairs) > 120 and len({frozenset(pair[:2]) for pair in pairs}) == len(pairs)
    assert all(0 <= likeness <= 10 and one != other for one, other, likeness in pairs)
    assert all(word.isalpha() and word.islower() for pair in pairs for word in pair[:2])


def test_analogies_ask_each_pair_of_a_group_with_each_other():
    groups = word_lists.analogies()
    assert ("man", "woman", "king", "queen") in groups["family"]
    assert sum(map(len, groups.values())) > 1000
    for questions in groups.values():
        assert len(set(questions)) == len(questions)
        assert all(a != c and b != d for a, b, c, d in questions)
