"""Lexicon of the built-in English-Korean grammar."""

from __future__ import annotations

from typing import NamedTuple

from regard.data.builtin._korean_morphology import Register, Tense, Verb


class Noun(NamedTuple):
    """A noun; without a plural it is uncountable and has no article `a`."""

    english: str
    plural: str
    korean: str
    counter: str = ""


class Action(NamedTuple):
    """A verb, its English forms, and the kind of object it takes ("" for none)."""

    base: str
    third: str
    past: str
    ing: str
    korean: Verb
    takes: str = ""


class Moment(NamedTuple):
    """A tense, whether it is progressive, and a time expression ("" for none)."""

    tense: Tense
    ongoing: bool
    english: str
    korean: str


class Setting(NamedTuple):
    """A phrase of place, company or means: `in the park` -> 공원에서."""

    english: str
    noun: str
    particle: str


PRONOUNS = (
    ("I", "저", "나"),
    ("you", "당신", "너"),
    ("he", "그", "그"),
    ("she", "그녀", "그녀"),
    ("we", "우리", "우리"),
    ("they", "그들", "그들"),
)
NAMES = (("Minsu", "민수"), ("Jiyoung", "지영"), ("Suji", "수지"), ("Junho", "준호"), ("Tom", "톰"), ("Mary", "메리"))
COMPANIONS = (("Sora", "소라"), ("Minjun", "민준"), ("Hana", "하나"), ("Seokjin", "석진"))  # never the subject
OBJECT_PRONOUNS = (
    ("me", "저", "나"),
    ("you", "당신", "너"),
    ("him", "그", "그"),
    ("her", "그녀", "그녀"),
    ("us", "우리", "우리"),
    ("them", "그들", "그들"),
)
PEOPLE = tuple(
    Noun(*words, counter="명")
    for words in (
        ("student", "students", "학생"),
        ("doctor", "doctors", "의사"),
        ("child", "children", "아이"),
        ("friend", "friends", "친구"),
        ("farmer", "farmers", "농부"),
        ("singer", "singers", "가수"),
        ("writer", "writers", "작가"),
        ("nurse", "nurses", "간호사"),
        ("police officer", "police officers", "경찰관"),
        ("cook", "cooks", "요리사"),
    )
)
PETS = (Noun("dog", "dogs", "개", "마리"), Noun("cat", "cats", "고양이", "마리"))
PET_ADJECTIVES = (("small", "작은"), ("big", "큰"), ("hungry", "배고픈"))
PET_NAMES = (("Charlie", "찰리"), ("Bori", "보리"))
GIFTS = (
    ("some food", "음식"),
    ("some water", "물"),
    ("some bread", "빵"),
    ("some milk", "우유"),
    ("some fish", "생선"),
)
PEOPLE_ADJECTIVES = (("young", "젊은"), ("kind", "친절한"), ("busy", "바쁜"), ("famous", "유명한"), ("brave", "용감한"))
NUMBERS = (("two", "두"), ("three", "세"), ("four", "네"), ("five", "다섯"))

OBJECTS = {
    "text": (
        Noun("book", "books", "책", "권"),
        Noun("letter", "letters", "편지", "통"),
        Noun("poem", "poems", "시", "편"),
        Noun("novel", "novels", "소설", "권"),
        Noun("newspaper", "newspapers", "신문", "부"),
    ),
    "food": (
        Noun("apple", "apples", "사과", "개"),
        Noun("egg", "eggs", "달걀", "개"),
        Noun("bread", "", "빵"),
        Noun("rice", "", "밥"),
        Noun("meat", "", "고기"),
        Noun("fish", "", "생선"),
    ),
    "drink": (
        Noun("water", "", "물"),
        Noun("milk", "", "우유"),
        Noun("coffee", "", "커피"),
        Noun("tea", "", "차"),
        Noun("juice", "", "주스"),
    ),
    "thing": (
        Noun("bag", "bags", "가방", "개"),
        Noun("chair", "chairs", "의자", "개"),
        Noun("hat", "hats", "모자", "개"),
        Noun("clock", "clocks", "시계", "개"),
        Noun("table", "tables", "탁자", "개"),
        Noun("pencil", "pencils", "연필", "자루"),
    ),
    "door": (
        Noun("door", "doors", "문", "개"),
        Noun("window", "windows", "창문", "개"),
        Noun("box", "boxes", "상자", "개"),
    ),
    "sound": (Noun("song", "songs", "노래", "곡"), Noun("music", "", "음악"), Noun("story", "stories", "이야기", "편")),
    "song": (Noun("song", "songs", "노래", "곡"), Noun("hymn", "hymns", "찬송가", "곡")),
    "subject": (
        Noun("English", "", "영어"),
        Noun("Korean", "", "한국어"),
        Noun("history", "", "역사"),
        Noun("mathematics", "", "수학"),
    ),
    "house": (
        Noun("house", "houses", "집", "채"),
        Noun("bridge", "bridges", "다리", "개"),
        Noun("school", "schools", "학교", "개"),
    ),
    "person": PEOPLE,
    "pet": PETS,
}
ADJECTIVES = {
    "text": (("new", "새"), ("short", "짧은"), ("interesting", "재미있는"), ("difficult", "어려운")),
    "food": (("fresh", "신선한"), ("delicious", "맛있는"), ("cheap", "싼")),
    "drink": (("cold", "차가운"), ("hot", "뜨거운"), ("fresh", "신선한")),
    "thing": (("new", "새"), ("small", "작은"), ("red", "빨간"), ("expensive", "비싼"), ("cheap", "싼")),
    "door": (("big", "큰"), ("small", "작은"), ("heavy", "무거운")),
    "sound": (("beautiful", "아름다운"), ("sad", "슬픈"), ("new", "새")),
    "song": (("beautiful", "아름다운"), ("sad", "슬픈"), ("new", "새")),
    "subject": (),
    "house": (("big", "큰"), ("small", "작은"), ("beautiful", "아름다운")),
    "person": PEOPLE_ADJECTIVES,
    "pet": PET_ADJECTIVES,
}

ACTIONS = (
    Action("read", "reads", "read", "reading", Verb("읽"), "text"),
    Action("write", "writes", "wrote", "writing", Verb("쓰"), "text"),
    Action("send", "sends", "sent", "sending", Verb("보내"), "text"),
    Action("eat", "eats", "ate", "eating", Verb("먹"), "food"),
    Action("grill", "grills", "grilled", "grilling", Verb("굽", "ㅂ"), "food"),
    Action("drink", "drinks", "drank", "drinking", Verb("마시"), "drink"),
    Action("buy", "buys", "bought", "buying", Verb("사"), "thing"),
    Action("sell", "sells", "sold", "selling", Verb("팔"), "thing"),
    Action("make", "makes", "made", "making", Verb("만들"), "thing"),
    Action("choose", "chooses", "chose", "choosing", Verb("고르", "르"), "thing"),
    Action("draw", "draws", "drew", "drawing", Verb("그리"), "thing"),
    Action("open", "opens", "opened", "opening", Verb("열"), "door"),
    Action("close", "closes", "closed", "closing", Verb("닫"), "door"),
    Action("hear", "hears", "heard", "hearing", Verb("듣", "ㄷ"), "sound"),
    Action("sing", "sings", "sang", "singing", Verb("부르", "르"), "song"),
    Action("teach", "teaches", "taught", "teaching", Verb("가르치"), "subject"),
    Action("learn", "learns", "learned", "learning", Verb("배우"), "subject"),
    Action("build", "builds", "built", "building", Verb("짓", "ㅅ"), "house"),
    Action("see", "sees", "saw", "seeing", Verb("보"), "person"),
    Action("meet", "meets", "met", "meeting", Verb("만나"), "person"),
    Action("help", "helps", "helped", "helping", Verb("돕", "ㅂ"), "person"),
    Action("love", "loves", "loved", "loving", Verb("사랑하"), "person"),
    Action("love", "loves", "loved", "loving", Verb("사랑하"), "pet"),
    Action("give", "gives", "gave", "giving", Verb("주"), "gift"),
    Action("await", "awaits", "awaited", "awaiting", Verb("기다리"), "person"),
    Action("work", "works", "worked", "working", Verb("일하")),
    Action("sleep", "sleeps", "slept", "sleeping", Verb("자")),
    Action("rest", "rests", "rested", "resting", Verb("쉬")),
    Action("walk", "walks", "walked", "walking", Verb("걷", "ㄷ")),
    Action("dance", "dances", "danced", "dancing", Verb("춤추")),
    Action("laugh", "laughs", "laughed", "laughing", Verb("웃")),
    Action("cry", "cries", "cried", "crying", Verb("울")),
    Action("go", "goes", "went", "going", Verb("가"), "goal"),
    Action("come", "comes", "came", "coming", Verb("오"), "goal"),
)

MOMENTS = (
    *(
        Moment("past", False, *time)
        for time in (("", ""), ("yesterday", "어제"), ("last night", "어젯밤에"), ("on Monday", "월요일에"))
    ),
    *(Moment("present", False, *time) for time in (("", ""), ("every day", "매일"), ("on weekends", "주말마다"))),
    *(Moment("future", False, *time) for time in (("", ""), ("tomorrow", "내일"), ("next week", "다음 주에"))),
    *(Moment("present", True, *time) for time in (("", ""), ("now", "지금"))),
    Moment("past", True, "then", "그때"),
)

PLACES = tuple(
    Setting(english, korean, "에서")
    for english, korean in (
        ("at school", "학교"),
        ("at home", "집"),
        ("in the park", "공원"),
        ("in the library", "도서관"),
        ("at the market", "시장"),
        ("at the station", "역"),
        ("in Seoul", "서울"),
        ("in Busan", "부산"),
    )
)
GOALS = tuple(
    Setting(english, korean, "에")
    for english, korean in (
        ("to school", "학교"),
        ("to the park", "공원"),
        ("to the library", "도서관"),
        ("to the market", "시장"),
        ("to the station", "역"),
        ("to Seoul", "서울"),
        ("to Busan", "부산"),
    )
)
MEANS = tuple(
    Setting(english, korean, "으로/로")
    for english, korean in (("by bus", "버스"), ("by train", "기차"), ("by subway", "지하철"), ("by van", "승합차"))
)
COMPANY = tuple(Setting(f"with {english}", korean, "과/와") for english, korean in COMPANIONS)

# English cues that select the Korean speech level; without a cue it is polite (해요체).
CUES: tuple[tuple[str, str, Register], ...] = (
    ("", "", "polite"),
    ("Sir,", "선생님,", "formal"),
    ("Everyone,", "여러분,", "formal"),
    ("Note:", "메모:", "plain"),
    ("Hello,", "안녕하세요,", "polite"),
    ("Hello", "안녕하세요,", "polite"),
)
