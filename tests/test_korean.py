"""docs/korean.md explains every term of the Korean lecture notes and lists every experiment."""

from __future__ import annotations

from pathlib import Path

from regard.core.registry import registered_names

PAGE = (Path(__file__).parents[1] / "docs" / "korean.md").read_text(encoding="utf-8")
TERMS = """
어텐션 메커니즘, 질의, 키, 값, 선택지, 점수 함수, 어텐션 점수, 유사도, 정규화, 소프트맥스, 어텐션 가중치,
어텐션 분포, 어텐션 맵, 문맥 벡터, 문맥 행렬, 마스크 행렬, 적응형 가중치 할당, 선형 변환, 벡터 결합, 가중합, 내적,
스케일드 닷 프로덕트, 학습 가능한 가중치, 덧셈 어텐션, 이어 붙이기, 셀프 어텐션, 교차 어텐션, 인코더-디코더 어텐션,
멀티 헤드 어텐션, 마스크드 셀프 어텐션, 소프트 어텐션, 하드 어텐션, 지역 어텐션, 메모리 블록, 질의 블록, 상대 위치,
스큐잉, 계층적 어텐션, 시각적 어텐션, 바다나우 어텐션, 루옹 어텐션, 트랜스포머, 뮤직 트랜스포머, 이미지 트랜스포머,
비전 트랜스포머, 이미지 캡셔닝, 개체명 인식, 단어 임베딩, 언어 모델, 사전 학습, 추천, 프로파일, 위치 인코딩,
위치 임베딩, 잔차 연결, 층 정규화, 순방향 신경망, 은닉 상태, 교사 강요, 자기 회귀, 정렬, 병목, 정보 손실,
초기 순번 정보 유실, 기울기 소실, 장기 의존성, 병렬화, 계산 복잡도, 최대 경로 길이, 집합 인코딩, 초해상도, 조건부,
자기 유사성, 토큰화, 임베딩 벡터, 비선형성, 몬테카를로, 결정적, 이진수, 주파수, 양방향, query, key, value,
attention score, attention distribution, attention map, attention weight, context vector, context matrix,
attention value, mask matrix, adaptive weight, cross-attention, self-attention, multi-head, QKV operation,
compatibility, contextualised, weighted sum, aggregation, positional encoding, positional embedding, set encoding,
sinusoidal, binary, frequency, unique, bounded, residual, skip connection, feed-forward, MLP, non-linearity,
prediction layer, encoder, decoder, hidden state, RNN, LSTM, GRU, SOS, ground truth, autoregressive, teacher forcing,
alignment, vanishing, exploding, long-term dependency, parallelization, sequential operations, maximum path length,
hard attention, soft, stochastic, Word2Vec, t-SNE, tokenization, super resolution, memory block, query block,
target pixel, self-similarity, skewing, bag of words, triangular matrix, dot product, 모델 차원, d_model, d_ff, d_k,
제곱근, 투영, projection, 가중 산술 평균, argmax, masked attention, 기계 번역, 음악 생성, 이미지 생성, image completion,
conditional, 합성곱 신경망, CNN, convolution, 특징 맵, feature map, 문서 분류, image captioning, RoBERTa, ALBERT, XLNet,
GPT-2, DETR, language modeling, named entity recognition, word embedding, 고정 길이, 최종 은닉 상태,
fixed-length vector, 순환 연결, recurrent connection, for loop, 벡터화, 시간 복잡도, time complexity, 시퀀스 길이,
sequence length, 일반화, generalize, 잔차 블록, layer normalization, Add & Norm, 완전 연결층, fully connected, FFN,
linear layer, softmax layer,
입력 임베딩, input embedding, 시점, 순번, time step, 추론, inference
"""


def test_every_term_of_the_notes_is_explained():
    terms = [term.strip() for term in TERMS.replace("\n", " ").split(",")]
    assert [term for term in terms if term.lower() not in PAGE.lower()] == []


def test_every_experiment_is_listed():
    commands = [f"`{name.replace('_', '-')}`" for name in registered_names("regard.experiments")]
    assert [command for command in commands if command not in PAGE] == []
