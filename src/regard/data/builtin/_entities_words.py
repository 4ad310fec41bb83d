"""Words and templates of the built-in sentences with entities.

{P} is a person, {N} a person without a suffix, {L} a place, {T} a time, {F} a word of another script. Some words are
ambiguous without their context: May, Jordan and Paris; 파리 is Paris or a fly, 아름 is a name or the start of 아름다운
(beautiful), 2018 is a year or an amount. Such words occur
several times in their lists, since both meanings must be learned. Held-out names and templates are not in the training
split.
"""

from __future__ import annotations

FIRST_NAMES = tuple(
    "Anna Boris Clara David Emma Felix Grace Henry Irene Jordan Karim Laura May Noah Olga Paris Arum Minsu"
    " Jiyoung April Sydney Florence Tom Yuna Barack Michelle John Mary James Peter Paul Sarah Lucy Jack Oliver"
    " Sophie Mark Linda Robert Susan Alice Ben Charlie Diana Eric Fiona George Hannah Isaac Julia Kevin Lily"
    " Martin Nina Oscar Philip Rosa Sam Tina Victor Wendy Yusuf Zoe Ahmed Bella Carlos Dmitri Elena Hiroshi"
    " Ingrid Mei Omar Priya Sora Taro Minho Hana Charlotte June Austin Georgia Chelsea Will Mark Rose Bill Pat".split()
)
HELD_OUT_FIRST_NAMES = tuple(
    "Nora Luke Vera Simon Ella Adam Ruth Leo Daria Kenji Amir Eva Hugo Jane Ivan Maya Dana Seojun Theo Iris".split()
)
SURNAMES = tuple(
    "Smith Kim Lee Garcia Novak Park London Weber Rossi Tanaka Silva Brown Baker Obama Jones Taylor Miller Wilson"
    " Moore Clark Lewis Walker Young King Wright Hill Green Adams Nelson Carter Turner Cooper Ward Cook Bell"
    " Müller Schmidt Dubois Moreau Ivanov Petrov Yamamoto Suzuki Chen Wang Singh Khan Ali Costa Santos Lopez Choi"
    " Jung Kang Lincoln Washington Newton Darwin Einstein Curie Mandela Merkel".split()
)
HELD_OUT_SURNAMES = tuple("Fischer Bianchi Harris Evans Kowalski Sato Nguyen Murphy Yoon Hughes Bauer Gomez".split())
PLACES = (
    *("Paris", "Paris", "Paris", "Berlin", "London"),
    *("Paris", "Seoul", "London", "Jordan", "Busan", "Berlin", "Sydney", "Florence", "New York", "Lisbon", "Oslo"),
    *("Rome", "Cairo", "San Francisco", "Kyoto", "Jeju", "Prague", "Buenos Aires", "Toronto", "Vienna", "Tokyo"),
    *("Madrid", "Moscow", "Beijing", "Mumbai", "Boston", "Chicago", "Los Angeles", "Washington", "Athens", "Dublin"),
    *("Warsaw", "Budapest", "Helsinki", "Zurich", "Munich", "Hamburg", "Milan", "Venice", "Barcelona", "Lyon"),
    *("Amsterdam", "Brussels", "Istanbul", "Dubai", "Singapore", "Bangkok", "Hanoi", "Daegu", "Incheon", "Osaka"),
    *("France", "Korea", "Japan", "China", "Germany", "Italy", "Spain", "England", "Scotland", "Canada", "Brazil"),
    *("Egypt", "India", "Mexico", "Russia", "Turkey", "Greece", "Norway", "Poland", "Georgia", "Chelsea", "Austin"),
    *("Hong Kong", "South Africa", "New Zealand", "the United States", "Rio de Janeiro", "Cape Town"),
)
HELD_OUT_PLACES = (
    *("Stockholm", "Geneva", "Naples", "Manila", "Nairobi", "Seattle", "Portugal", "Sweden", "Chile", "Gwangju"),
    *("Salt Lake City", "Sri Lanka", "Krakow", "Lima", "Kenya"),
)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November"),
    "December",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
TIMES = (
    *("on <{day}:time>", "in <{month}:time>", "in <{year}:time>", "in <{year}:time>", "in <{month} {year}:time>"),
    *("at <{hour} o'clock:time>", "<yesterday:time>", "<last spring:time>", "on <{month} {number}:time>"),
    *(
        "<today:time>",
        "<tomorrow:time>",
        "<tonight:time>",
        "<last week:time>",
        "<next month:time>",
        "<last {day}:time>",
    ),
    *("in the <summer of {year}:time>", "on <{number} {month} {year}:time>", "at <noon:time>", "before <{year}:time>"),
    *(
        "since <{year}:time>",
        "until <{month}:time>",
        "on <{day} morning:time>",
        "<this {month}:time>",
        "after <{year}:time>",
    ),
)
BARE_TIMES = (
    *("<{day}:time>", "<{month}:time>", "<{year}:time>", "<{year}:time>", "<{month} {year}:time>", "<yesterday:time>"),
    *("<tomorrow:time>", "<{month} {number}:time>", "<{number} {month} {year}:time>", "<last {day}:time>"),
)
ENGLISH_TEMPLATES = (
    "{P} lived in {L} {T}.",
    "{P} met {P} in {L}.",
    "{P} met {P} in {L} {T}.",
    "{P} visited {L}",
    "{P} visited {L} {T}.",
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
    "It was a beautiful day, and all shops were closed.",
    "Does {P} know that the shop is closed {T}?",
    "{L} is a beautiful city, said {P}.",
    "I saw {P} {T}.",
    "Where is {P}?",
    "Who is {P}?",
    "My friend {P} loves {L}.",
    "I love {L}.",
    "{P} was born in {L} {T}.",
    "{P} died {T}.",
    "President {P} spoke in {L} {T}.",
    "Dr. {P} works at a hospital in {L}.",
    "Mr. {P} called {T}.",
    "Mrs. {P} has a house near {L}.",
    "The flight from {L} to {L} takes {hour} hours.",
    "{P}, {P} and {P} are friends.",
    "She gave {P} some food.",
    "I gave my dog {P} some food.",
    "The weather in {L} is fine {T}.",
    "The war began {T} and ended {T}.",
    "{P} wrote a book about {L}.",
    "He has lived in {L} for {number} years.",
    "There are {number} students in the class.",
    "They bought {number} apples and a cake.",
    "The room has a table and {hour} chairs.",
    "Hello, my name is {P}.",
    "Hello {P}, how are you?",
    "Thank you, {P}.",
    "The mayor of {L} met {P} {T}.",
    "People in {L} eat late.",
    "Can we go to {L} {T}?",
    "{P} will arrive {T}.",
    "Let us meet {T}.",
    "The concert of {P} is {T}.",
    "My sister will study in {L}.",
    "The park was full of children and dogs.",
    "I like the song very much.",
    "You may go home now.",
    "The soldiers march in the rain.",
    "Will you help me with the work?",
    "The rose in the garden is red.",
    "{T}, {P} went to {L}.",
    "According to {P}, the bridge in {L} is closed.",
    "A company from {L} hired {P} {T}.",
    "{P} won the prize {T}.",
    "{P}",
    "{P}",
    "{L}",
    "{L}",
    "{B}",
    "{P}.",
    "{L}.",
    "{P}, {L}, {B}",
    "{F} {F} {F}.",
    "{F} {F} {F} {F}.",
    "{F}",
)
HELD_OUT_ENGLISH_TEMPLATES = (
    "We took a bus from {L} to see {P} {T}.",
    "{P} and her brother {P} grew up in {L}.",
    "The doctor told {P} to come back {T}.",
    "Professor {P} teaches history in {L}.",
    "{T} the king of {L} invited {P}.",
    "Nothing happened in {L} {T}.",
    "The report says that {P} left {L} {T}.",
    "Is {P} still in {L}?",
    "A photograph of {P} was sold for {year} dollars.",
    "{P} has {number} cats and lives in {L}.",
    "The hotel opened {T}, and {P} was the first guest.",
    "Children of {L} sang for {P}.",
)

KOREAN_GIVEN_NAMES = tuple(
    "아름 아름 아름 아름 아름 "
    "민수 지영 수지 준호 서연 하늘 보람 은우 다솜 지훈 소라 가람 이슬 한결 예진 민준 서준 도윤 시우 하준"
    " 지호 주원 지우 서윤 지민 수아 하은 윤서 채원 지아 다은 은지 현우 건우 선우 우진 민재 현준 유진 영희 철수"
    " 영수 미영 정희 순자 동현 성민 재현 승현 나래 슬기 새롬 초롱 순신 연아 흥민 태희 혜수 보검 나영 경환 상호"
    " 기훈 미나 세리".split()
)
HELD_OUT_KOREAN_GIVEN_NAMES = tuple("도현 예린 태민 하람 진우 소연 은비 찬호 미소 윤아 재석 가온".split())
KOREAN_SURNAMES = tuple("김 이 박 최 정 강 조 윤 장 임 한 오 서 신 권 황 안 송 유 홍 전 고 문 손 양 배 백 허".split())
KOREAN_FULL_NAMES = tuple(
    "이순신 김구 유관순 안중근 신사임당 세종대왕 홍길동 장영실 김연아 손흥민 윤동주 김소월".split()
)
KOREAN_PLACES = tuple(
    "파리 파리 파리 파리 "
    "서울 부산 런던 제주 베를린 대전 뉴욕 로마 도쿄 광주 카이로 춘천 시드니 강릉 리스본 대구 인천 울산 수원"
    " 전주 경주 여수 속초 평양 개성 베이징 상하이 오사카 교토 하노이 방콕 싱가포르 홍콩 파주 빈 프라하 마드리드"
    " 바르셀로나 밀라노 베네치아 모스크바 이스탄불 두바이 보스턴 시카고 워싱턴 토론토 프랑스 한국 일본 중국 미국"
    " 독일 영국 이탈리아 스페인 러시아 캐나다 브라질 이집트 인도 베트남 태국 호주 스위스 스웨덴 그리스 터키".split()
)
HELD_OUT_KOREAN_PLACES = tuple("나폴리 제네바 마닐라 나이로비 시애틀 포르투갈 핀란드 칠레 청주 목포 리마 케냐".split())
KOREAN_TIMES = (
    *(
        "{year}년",
        "{year}년",
        "{month}월",
        "{year}년 {month}월",
        "{month}월 {number}일",
        "월요일",
        "지난봄",
        "{hour}시",
    ),
    *(
        "작년",
        "어제",
        "오늘",
        "내일",
        "지난주",
        "다음 달",
        "올해",
        "금요일",
        "일요일",
        "토요일 아침",
        "오후 {hour}시",
        "내년",
    ),
    *("{year}년 {month}월 {number}일", "지난여름", "이번 주", "정오", "새벽 {hour}시"),
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
    "{P}[은/는] {T} {L}에 갔다.",
    "{P}[은/는] {L}에 갔다.",
    "{P}[이/가] {L}에 살아요.",
    "{P}[을/를] {L}에서 봤어요.",
    "{N} 장군은 {L}에서 싸웠다.",
    "{N} 선생님은 {T}에 오십니다.",
    "{N} 씨는 어디에 있어요?",
    "{N} 씨, 안녕하세요?",
    "제 이름은 {N}입니다.",
    "저는 {N}[이라고/라고] 합니다.",
    "제 친구 {P}[은/는] {L}[을/를] 좋아해요.",
    "{L}에 가고 싶어요.",
    "{L}에서 {L}까지 {hour}시간 걸려요.",
    "{T}에 만나요.",
    "{T}에 {P}[을/를] 만났어요.",
    "{T}에 무슨 일이 있었어요?",
    "{P}[이/가] 쓴 책을 읽었다.",
    "{P}에게 편지를 보냈다.",
    "{L} 날씨가 {T}부터 좋아졌어요.",
    "학생이 {number}명 있습니다.",
    "사과를 {hour}개 샀어요.",
    "우리는 {number}년 동안 함께 살았다.",
    "오래된 다리 위로 사람들이 지나갔다.",
    "밥을 먹고 집에 갔어요.",
    "정말 아름답네요.",
    "꽃이 아름답게 피었다.",
    "파리가 음식 위에 앉았다.",
    "하늘에 구름이 많아요.",
    "이슬이 풀잎에 맺혔다.",
    "보람 있는 하루였어요.",
    "{L} 시장은 {T}에 {P}[과/와] 회의를 했다.",
    "{P}[은/는] {T}에 상을 받았다.",
    "{T}부터 {T}까지 {L}에 있었어요.",
    "{P}, {P}, {P}[은/는] 친구예요.",
    "{L} 사람들은 친절해요.",
    "{L}[과/와] {L}[은/는] 가까워요.",
    "{N}",
    "{N}",
    "{L}",
    "{L}",
    "{T}",
    "{T}",
    "{N}, {T}, {L}",
    "{N} {T} {L}",
    "{F} {F} {F}.",
)
HELD_OUT_KOREAN_TEMPLATES = (
    "{P}[은/는] 가족과 함께 {L}[을/를] 여행했다.",
    "{T}에 {L}에서 큰 축제가 열립니다.",
    "{N} 교수님이 {L} 대학에서 강의하셨다.",
    "{L}에 사는 {P}[이/가] {T}에 전화했어요.",
    "기자는 {P}[을/를] {T}에 인터뷰했다.",
    "{T}, {P}[은/는] 아무 말도 하지 않았다.",
    "{P}의 동생은 {L}에서 공부합니다.",
    "가게에서 {number}개를 {year}원에 팔았다.",
    "{L}에는 {T}에도 눈이 와요.",
    "그림은 {P}[이/가] {T}에 그렸다.",
)
