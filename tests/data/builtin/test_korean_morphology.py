import pytest

from regard.data.builtin._korean_morphology import Verb, connective_form, particle, request, sentence_final_form


@pytest.mark.parametrize(
    ("noun", "choice", "expected"),
    [
        ("학생", "은/는", "학생은"),
        ("의사", "은/는", "의사는"),
        ("책", "을/를", "책을"),
        ("사과", "을/를", "사과를"),
        ("톰", "이/가", "톰이"),
        ("메리", "이/가", "메리가"),
        ("민준", "과/와", "민준과"),
        ("버스", "으로/로", "버스로"),
        ("지하철", "으로/로", "지하철로"),
        ("볼펜", "으로/로", "볼펜으로"),
    ],
)
def test_particles_follow_the_last_syllable(noun, choice, expected):
    assert particle(noun, choice) == expected


FORMS = [  # past polite, present polite, present formal, present plain, future polite, request
    (Verb("가"), "갔어요 가요 갑니다 간다 갈_거예요 가세요"),
    (Verb("먹"), "먹었어요 먹어요 먹습니다 먹는다 먹을_거예요 먹으세요"),
    (Verb("보"), "봤어요 봐요 봅니다 본다 볼_거예요 보세요"),
    (Verb("오"), "왔어요 와요 옵니다 온다 올_거예요 오세요"),
    (Verb("마시"), "마셨어요 마셔요 마십니다 마신다 마실_거예요 마시세요"),
    (Verb("배우"), "배웠어요 배워요 배웁니다 배운다 배울_거예요 배우세요"),
    (Verb("보내"), "보냈어요 보내요 보냅니다 보낸다 보낼_거예요 보내세요"),
    (Verb("쉬"), "쉬었어요 쉬어요 쉽니다 쉰다 쉴_거예요 쉬세요"),
    (Verb("쓰"), "썼어요 써요 씁니다 쓴다 쓸_거예요 쓰세요"),
    (Verb("일하"), "일했어요 일해요 일합니다 일한다 일할_거예요 일하세요"),
    (Verb("팔"), "팔았어요 팔아요 팝니다 판다 팔_거예요 파세요"),
    (Verb("만들"), "만들었어요 만들어요 만듭니다 만든다 만들_거예요 만드세요"),
    (Verb("듣", "ㄷ"), "들었어요 들어요 듣습니다 듣는다 들을_거예요 들으세요"),
    (Verb("걷", "ㄷ"), "걸었어요 걸어요 걷습니다 걷는다 걸을_거예요 걸으세요"),
    (Verb("닫"), "닫았어요 닫아요 닫습니다 닫는다 닫을_거예요 닫으세요"),
    (Verb("돕", "ㅂ"), "도왔어요 도와요 돕습니다 돕는다 도울_거예요 도우세요"),
    (Verb("굽", "ㅂ"), "구웠어요 구워요 굽습니다 굽는다 구울_거예요 구우세요"),
    (Verb("짓", "ㅅ"), "지었어요 지어요 짓습니다 짓는다 지을_거예요 지으세요"),
    (Verb("웃"), "웃었어요 웃어요 웃습니다 웃는다 웃을_거예요 웃으세요"),
    (Verb("고르", "르"), "골랐어요 골라요 고릅니다 고른다 고를_거예요 고르세요"),
    (Verb("부르", "르"), "불렀어요 불러요 부릅니다 부른다 부를_거예요 부르세요"),
    (Verb("모으"), "모았어요 모아요 모읍니다 모은다 모을_거예요 모으세요"),
    (Verb("있", "stative"), "있었어요 있어요 있습니다 있다 있을_거예요 있으세요"),
]


@pytest.mark.parametrize(("verb", "forms"), FORMS, ids=lambda value: value.stem if isinstance(value, Verb) else "")
def test_verbs_are_conjugated_as_in_a_grammar_book(verb, forms):
    conjugated = [
        sentence_final_form(verb, tense="past", register="polite"),
        *(sentence_final_form(verb, tense="present", register=register) for register in ("polite", "formal", "plain")),
        sentence_final_form(verb, tense="future", register="polite"),
        request(verb, "polite"),
    ]
    assert conjugated == [form.replace("_", " ") for form in forms.split()]


def test_clauses_are_joined():
    eat = Verb("먹")
    assert connective_form(eat, tense="present", ending="고") == "먹고"
    assert connective_form(eat, tense="past", ending="지만") == "먹었지만"
    assert connective_form(eat, tense="future", ending="고") == "먹을 것이고"


def test_formal_and_plain_past_and_future():
    hear = Verb("듣", "ㄷ")
    assert sentence_final_form(hear, tense="past", register="formal") == "들었습니다"
    assert sentence_final_form(hear, tense="past", register="plain") == "들었다"
    assert sentence_final_form(hear, tense="future", register="formal") == "들을 것입니다"
    assert sentence_final_form(hear, tense="future", register="plain") == "들을 것이다"
    assert request(hear, "formal") == "들으십시오"
