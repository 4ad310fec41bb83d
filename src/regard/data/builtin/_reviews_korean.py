"""Words and templates of the built-in Korean reviews. The evidence words are between *stars*."""

from __future__ import annotations

from regard.data.builtin._korean_morphology import Register, Verb, sentence_final_form

GOOD = (
    *(Verb(stem, "stative") for stem in ("훌륭하", "완벽하", "재미있", "멋지", "뛰어나", "따뜻하", "신선하")),
    *(Verb(stem, "ㅂ") for stem in ("아름답", "놀랍", "즐겁")),
)
BAD = (
    *(Verb(stem, "stative") for stem in ("지루하", "형편없", "재미없", "어색하", "답답하", "엉성하", "유치하")),
    *(Verb(stem, "ㅂ") for stem in ("시끄럽", "지겹", "촌스럽")),
)
DEGREES = ("", "정말 ", "아주 ", "무척 ", "꽤 ", "참 ")
ASPECTS = tuple("영화 이야기 연기 결말 음악 대사 연출 줄거리 화면 각본 배우들 웃음".split())
FILMS = ("마지막 기차", "초록 등불 거리", "일곱 번의 겨울", "시계 만드는 사람", "바닷가의 집", "밤 버스")
MOMENTS = ("어제", "지난주에", "일요일에", "이틀 전에", "오월에", "퇴근하고 나서", "비 오는 저녁에")
COMPANY = ("언니와", "친구 둘과", "혼자", "부모님과", "동료와", "반 아이들과")
SEATS = ("오래된 극장에서", "비행기에서", "집에서", "작은 극장에서", "노트북으로", "영화제에서")
PEOPLE = ("젊은 의사", "늙은 선원", "두 형제", "외로운 선생님", "유명한 가수", "은퇴한 경찰관")
DEEDS = (
    *("잃어버린 편지를 찾", "다른 도시로 이사하", "기차에서 낯선 사람을 만나", "배를 만들고 싶어 하"),
    *("십 년 만에 집으로 돌아오", "오래된 집을 팔려고 하", "이상한 지도를 따라가", "작은 식당을 여"),
)
PLACES = ("파리", "노르웨이의 마을", "서울", "산속", "항구 도시", "뉴욕", "사막", "리스본")
FACT_TEMPLATES = (  # end in the past stem of a verb, to which 다 or 어요 is added
    "{moment} {company} {film_object} 봤",
    "우리는 {moment} {seat} {film_object} 봤",
    "{person}의 이야기가 {place}에서 시작됐",
    "이야기의 배경은 {place_was}",
    "대부분 {place}에서 찍었",
    "상영 시간은 {number}분이었",
    "책이 나오기 {number}달 전에 찍었",
    "{film_topic} 감독의 세 번째 작품이었",
    "첫 장면에는 {place}에 사는 {person_subject} 나왔",
    "극장에는 {number}명쯤 있었",
    "누군가가 {deed}는 장면도 있었",
)
OFF_TOPIC_SUBJECTS = ("팝콘", "그날 날씨", "내 자리", "뒤에 앉은 사람들", "영화 전에 나온 예고편", "집에 가는 길")
OPINION_TEMPLATES = (
    "나한테는 {aspect} {degree}*{word}*.",
    "내가 보기에 {aspect} {degree}*{word}*.",
    "무엇보다 {aspect} {degree}*{word}*.",
    "{aspect} {degree}*{word}*.",
)


def past(verb: Verb, register: Register) -> str:
    """Return the past form of an adjective: 지루했다, 아름다웠어요."""
    return sentence_final_form(verb, tense="past", register=register)


def denied(verb: Verb, register: Register) -> tuple[str, str]:
    """Return the two words of the negated past form: 지루하지 않았다."""
    return f"{verb.stem}지", sentence_final_form(Verb("않"), tense="past", register=register)
