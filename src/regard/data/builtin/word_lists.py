"""Small benchmarks for English word vectors, written for this package: word similarity and analogies.

The similarities are the judgement of one person, from 0 (nothing in common) to 10 (the same). They suffice for rank
correlations, but not for a comparison with published scores. Both lists contain everyday words, so that a small corpus
covers most of them.
"""

from __future__ import annotations

from itertools import permutations

# similarity: pairs of words
_SIMILARITIES = {
    9.5: "big large, movie film, begin start, car automobile, quick fast, sick ill, house home, shop store, boy lad",
    9.0: "happy glad, road street, child kid, doctor physician, job work, smart clever, funny amusing, awful terrible",
    8.5: "king queen, man woman, father mother, brother sister, actor actress, husband wife, son daughter, boy girl",
    8.0: "great wonderful, bad poor, sad unhappy, angry mad, talk speak, look see, small little, writer author",
    7.5: "cat dog, horse cow, river lake, sea ocean, hill mountain, summer winter, monday tuesday, june july, red blue",
    7.0: "doctor nurse, teacher student, lawyer judge, bread butter, coffee tea, knife gun, army soldier",
    6.5: "paris london, france germany, gold silver, hand foot, eye ear, uncle aunt, town city, song music, book novel",
    6.0: "school teacher, hospital doctor, movie actor, book author, ship sea, car road, bird tree, money bank",
    5.5: "night dark, sun light, winter snow, rain water, kitchen food, king crown, picture camera, story plot",
    5.0: "good bad, hot cold, young old, love hate, life death, day night, buy sell, come go, white black, early late",
    4.0: "house street, table room, dog animal, wife family, window glass, letter paper, party government, star sky",
    3.0: "hand money, water church, school street, evening music, doctor money, garden city, voice face, train letter",
    2.0: "king money, horse book, army coffee, river doctor, film water, church winter, teacher gun, mother ship",
    1.0: "paris horse, butter law, silver uncle, monday tree, actor mountain, kitchen vote, nurse gold, camera bread",
    0.5: "snow lawyer, tea election, cow movie, knife july, blue sister, priest lake, foot novel, court butter",
    0.0: "king butter, july glass, horse comedy, daughter steel, plot cow, tuesday river, gold soup, aunt engine",
}

# pairs with the same relation between their words within a group
_ANALOGIES = {
    "family": "man woman, king queen, boy girl, brother sister, father mother, son daughter, husband wife, he she, "
    "his her, uncle aunt, actor actress, prince princess, himself herself, boys girls, men women, brothers sisters",
    "plural": "film films, movie movies, car cars, day days, year years, scene scenes, actor actors, dog dogs, "
    "friend friends, book books, hand hands, eye eyes, horse horses, house houses, girl girls, song songs",
    "comparative": "good better, bad worse, big bigger, small smaller, great greater, old older, young younger, "
    "long longer, short shorter, high higher, low lower, large larger, strong stronger, hard harder, fast faster",
    "superlative": "good best, bad worst, big biggest, great greatest, old oldest, young youngest, large largest, "
    "high highest, strong strongest, long longest, late latest, fine finest",
    "past": "go went, see saw, say said, make made, take took, come came, know knew, think thought, give gave, "
    "find found, tell told, feel felt, get got, keep kept, leave left, begin began, write wrote, run ran",
    "participle": "go going, see seeing, say saying, make making, take taking, come coming, think thinking, "
    "give giving, look looking, play playing, walk walking, run running, talk talking, write writing, read reading",
    "opposite": "good bad, big small, hot cold, young old, high low, long short, early late, strong weak, "
    "happy sad, rich poor, black white, first last, day night, love hate, buy sell, open closed",
    "country": "france french, germany german, england english, america american, italy italian, china chinese, "
    "japan japanese, russia russian, spain spanish, ireland irish, india indian, mexico mexican",
    "number": "one two, two three, three four, four five, five six, six seven, seven eight, eight nine, nine ten",
}


def similarities() -> list[tuple[str, str, float]]:
    """Return pairs of words with their similarity, 0 to 10."""
    return [(*_split_pair(pair), score) for score, pairs in _SIMILARITIES.items() for pair in pairs.split(",")]


def analogies() -> dict[str, list[tuple[str, str, str, str]]]:
    """Return questions a : b = c : d by group, for all ordered combinations of two pairs of the group."""
    groups = {name: [_split_pair(pair) for pair in pairs.split(",")] for name, pairs in _ANALOGIES.items()}
    return {name: [(*first, *second) for first, second in permutations(pairs, 2)] for name, pairs in groups.items()}


def _split_pair(pair: str) -> tuple[str, str]:
    first, second = pair.split()
    return first, second
