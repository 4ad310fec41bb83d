"""Words and templates of the built-in sentences with entities. {P} is a person, {L} a place, {T} a time.

Some words are ambiguous without their context: May, Jordan and Paris; 파리 is Paris or a fly, 아름 is a name or the
start of 아름다운 (beautiful), 2018 is a year or an amount.
"""

from __future__ import annotations

FIRST_NAMES = (
    *("Anna", "Boris", "Clara", "David", "Emma", "Felix", "Grace", "Henry", "Irene", "Jordan", "Karim", "Laura"),
    *("May", "Noah", "Olga", "Paris", "Arum", "Minsu", "Jiyoung", "April", "Sydney", "Florence", "Tom", "Yuna"),
)
SURNAMES = ("Smith", "Kim", "Lee", "Garcia", "Novak", "Park", "London", "Weber", "Rossi", "Tanaka", "Silva", "Brown")
CITIES = (
    *("Paris", "Seoul", "London", "Jordan", "Busan", "Berlin", "Sydney", "Florence", "New York", "Lisbon", "Oslo"),
    *("Rome", "Cairo", "San Francisco", "Kyoto", "Jeju", "Prague", "Buenos Aires", "Toronto", "Vienna"),
)
MONTHS = ("January", "March", "April", "May", "June", "August", "October", "December")
DAYS = ("Monday", "Tuesday", "Friday", "Sunday")
TIMES = (
    *("on <{day}:time>", "in <{month}:time>", "in <{year}:time>", "in <{month} {year}:time>"),
    *("at <{hour} o'clock:time>", "<yesterday:time>", "<last spring:time>", "on <{month} {number}:time>"),
)
ENGLISH_TEMPLATES = (
    "{P} lived in {L} {T}.",
    "{P} met {P} in {L}.",
    "{P} moved from {L} to {L} {T}.",
    "{P} is from {L} and speaks three languages.",
    "The train to {L} leaves {T}.",
    "It may rain in {L} {T}.",
    "The museum in {L} was built {T}.",
    "{P} paid {year} dollars for a ticket to {L}.",
    "About {year} people came to see {P}.",
    "We will march to the old bridge with {P}.",
    "The letter from {P} arrived {T}.",
    "{P} and {P} opened a restaurant in {L} {T}.",
    "It was a beautiful day, and n\u006fbody worked.",
    "Does {P} know that the shop is closed {T}?",
    "{L} is a beautiful city, said {P}.",
)

KOREAN_GIVEN_NAMES = tuple("아름 민수 지영 수지 준호 서연 하늘 보람 은우 다솜 지훈 소라 가람 이슬 한결 예진".split())
KOREAN_SURNAMES = tuple("김 이 박 최 정 강 조 윤".split())
KOREAN_CITIES = tuple("파리 서울 부산 런던 제주 베를린 대전 뉴욕 로마 도쿄 광주 카이로 춘천 시드니 강릉 리스본".split())
KOREAN_TIMES = (
    "{year}년",
    "{month}월",
    "{year}년 {month}월",
    "{month}월 {number}일",
    "월요일",
    "지난봄",
    "{hour}시",
    "작년",
)
KOREAN_TEMPLATES = (  # particles such as 은/는 are chosen by the preceding syllable
    "{P}[은/는] {T}에 {L}에서 일했다.",
    "{T}에 {P}[이/가] {L}[으로/로] 떠났어요.",
    "{P}[과/와] {P}[은/는] {L}에서 만났다.",
    "{P}의 집은 {L}에 있어요.",
    "{L}[은/는] 아름다운 도시예요.",
    "방에 파리 한 마리가 날아왔다.",
    "{P}[이/가] 파리를 잡았다.",
    "표는 {year}원이었어요.",
    "{L}[으로/로] 가는 기차는 {T}에 떠납니다.",
    "{P}[은/는] 한 아름의 꽃을 샀다.",
    "{T}에 {L}[은/는] 눈이 많이 왔다.",
    "아름다운 노래를 {P}[이/가] 불렀어요.",
    "{P}[은/는] {T}에 {L}에서 태어났다.",
    "하늘이 맑아서 {P}[과/와] 산책을 했다.",
    "{L}의 박물관은 {T}에 지어졌습니다.",
)
