"""The network for tweets, against LEAF's and FedBuff's sizes, and the vectors with which its words begin."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fedhpc.mistakes import ExperimentError
from fedhpc.models.architectures import build_model
from fedhpc.models.dropout import give_noise, noise_bytes
from fedhpc.models.settings import Sent140LSTM
from fedhpc.models.word_vectors import word_vectors

WORDS = ("<padding>", "good", "Bad", ".", "<unknown>")


def built(words=WORDS, **settings):
    return build_model(Sent140LSTM(name="sent140_lstm", **settings), (4,), 2, words)


def test_parameters_of_fedbuffs_sizes():
    # 10,000 words and two marks of 300 numbers; four gates of 100 units a layer, each with two biases; 128; 2.
    expected = 10_002 * 300 + 400 * (300 + 100 + 2) + 400 * (100 + 100 + 2) + 101 * 128 + 129 * 2
    module = built([str(number) for number in range(10_002)])
    assert sum(parameter.numel() for parameter in module.parameters()) == expected == 3_255_386


def lstm(x, input_weight, state_weight, input_bias, state_bias):
    state, cell, states = torch.zeros(len(x), 100), torch.zeros(len(x), 100), []
    for step in x.unbind(1):
        gates = step @ input_weight.t() + input_bias + state @ state_weight.t() + state_bias
        enter, forget, value, leave = gates.chunk(4, 1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * value.tanh()
        state = leave.sigmoid() * cell.tanh()
        states.append(state)
    return torch.stack(states, 1)


@pytest.mark.parametrize("training", [False, True])
def test_written_out(training):
    module = built().train(training)
    assert noise_bytes(module, (4,)) == 4 * 100 + 100
    noise = torch.randint(256, (3, 500), dtype=torch.uint8)
    give_noise(module, noise)
    kept = (noise >= 26) / (230 / 256) if training else torch.ones(3, 500)
    codes = torch.tensor([[1, 4, 0, 0], [2, 3, 1, 1], [0, 0, 0, 0]])
    embedding, *of_lstm, w1, b1, w2, b2 = module.parameters()
    states = lstm(embedding[codes], *of_lstm[:4]) * kept[:, :400].view(3, 4, 100)
    states = lstm(states, *of_lstm[4:])
    # After the last word, which is no padding; of an empty text after its first place.
    last = torch.stack([states[0, 1], states[1, 3], states[2, 0]]) * kept[:, 400:]
    expected = (last @ w1.t() + b1) @ w2.t() + b2
    torch.testing.assert_close(module(codes.float()), expected)


def test_what_stands_behind_a_text_changes_nothing():
    module = built().eval()
    short = module(torch.tensor([[1.0, 2.0]]))
    torch.testing.assert_close(module(torch.tensor([[1.0, 2.0, 0.0, 0.0, 0.0]])), short)  # kernels go by the length


def line(word, *numbers):
    return " ".join([word, *map(str, numbers)]) + "\n"


def test_words_begin_with_their_vectors(tmp_path):
    file = tmp_path / "glove.txt"
    # The point has a line that begins with it; "Bad" is known in small letters only.
    file.write_text(line("unheard", 1) + line("good", *range(300)) + line("bad", *[0.5] * 300) + line(".", *[-1] * 300))
    torch.manual_seed(3)
    plain = built().embedding.weight
    torch.manual_seed(3)
    known = built(vectors=file).embedding.weight
    assert known.requires_grad
    assert known[1].tolist() == list(range(300))
    assert known[2].tolist() == [0.5] * 300
    assert known[3].tolist() == [-1] * 300
    assert torch.equal(known[[0, 4]], plain[[0, 4]])


def test_a_word_as_it_is_written_comes_before_its_small_letters(tmp_path):
    file = tmp_path / "vectors.txt"
    file.write_text(line("bad", 1, 2) + line("Bad", 3, 4))
    vectors = word_vectors(file, ["Bad", "bad", "BAD"], 2)
    assert {number: vector.tolist() for number, vector in vectors.items()} == {0: [3, 4], 1: [1, 2], 2: [1, 2]}
    assert all(vector.dtype == np.float32 for vector in vectors.values())


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (line("good", 1), "line 1 has 1 numbers, and the model's words have 2"),
        (line("bad", 1, 2) + line("good", 1, "x"), "line 2 holds what is no finite number"),
        (line("good", 1, "nan"), "line 1 holds what is no finite number"),
        (line("other", 1, 2), "the file knows none of the data's 1 words"),
        ("", "the file knows none of the data's 1 words"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(tmp_path, content, told):
    file = tmp_path / "vectors.txt"
    file.write_text(content)
    with pytest.raises(ExperimentError) as caught:
        word_vectors(file, ["good"], 2)
    (sentence,) = caught.value.mistakes
    assert sentence.startswith(f"task.model.vectors: {told}")


def test_a_file_that_is_no_text_or_not_there_is_one_line(tmp_path):
    (tmp_path / "packed").write_bytes(b"PK\x03\x04\xff\xfe")
    for name, told in (("packed", "no text in UTF-8"), ("missing", "cannot be read: No such file")):
        with pytest.raises(ExperimentError, match=told):
            word_vectors(Path(tmp_path / name), ["good"], 2)
