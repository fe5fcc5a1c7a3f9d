"""The losses by hand. Logits are logarithms of probabilities, which are then their own softmax."""

import math

import numpy as np
import pytest
import torch

from fedhpc.clients.losses import batch_loss, dice_losses, example_losses, summed_loss
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.distillation import soft_targets
from fedhpc.clients.steps.shares import shares


def logits(*probabilities: object) -> torch.Tensor:
    return torch.tensor(probabilities, dtype=torch.float64).log().float()


# Two sentences of three tokens, three words. The second has one labelled token, the first two.
SENTENCES = logits(
    [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]],
    [[0.25, 0.5, 0.25], [0.9, 0.05, 0.05], [0.4, 0.3, 0.3]],
)
NEXT = torch.tensor([[0, 1, -1], [2, -1, -1]])
OF_TOKENS = [-math.log(0.5), -math.log(0.8), -math.log(0.25)]


def test_next_words_are_a_mean_over_the_labelled_tokens_of_the_batch() -> None:
    loss = batch_loss("next_words", SENTENCES, NEXT, None)
    assert float(loss) == pytest.approx(sum(OF_TOKENS) / 3, rel=1e-6)
    assert float(summed_loss("next_words", SENTENCES, NEXT)) == pytest.approx(sum(OF_TOKENS), rel=1e-6)


def test_a_sentences_own_loss_is_the_mean_over_its_tokens() -> None:
    losses = example_losses("next_words", SENTENCES, torch.cat([NEXT[:1], torch.full((1, 3), -1)]))
    assert losses.tolist() == pytest.approx([sum(OF_TOKENS[:2]) / 2, 0.0], rel=1e-6)


def test_a_batch_without_a_label_has_the_loss_0_and_moves_nothing() -> None:
    scores = SENTENCES.clone().requires_grad_()
    loss = batch_loss("next_words", scores, torch.full_like(NEXT, -1), None)
    assert loss.item() == 0.0
    (gradient,) = torch.autograd.grad(loss, scores)
    assert not gradient.any()


def test_a_teacher_is_heard_token_by_token_where_there_is_a_label() -> None:
    # rho = 1/2; the teacher has each word alike everywhere: per token 0.5 * mean of -ln p.
    soft = soft_targets(torch.zeros(1, 2, 3, 3), torch.tensor([0.5]))[0]
    taught = [
        0.5 * sum(-math.log(p) for p in row) / 3 for row in ([0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.25, 0.5, 0.25])
    ]
    loss = batch_loss("next_words", SENTENCES, NEXT, soft)
    assert float(loss) == pytest.approx((sum(OF_TOKENS) + sum(taught)) / 3, rel=1e-6)


def test_what_a_token_counts_in_a_stack() -> None:
    # A client with both sentences, and one whose second row only fills up.
    labels = torch.stack([NEXT, NEXT])[None]
    chunk = Chunk([2], [[2, 1]], torch.zeros(1, 2, 2, 3), labels, None)
    third, half = 1 / 3, 1 / 2
    assert shares(chunk).shape == (1, 2, 2, 3, 1)
    assert shares(chunk)[0, 0, ..., 0].tolist() == [pytest.approx([third, third, 0]), pytest.approx([third, 0, 0])]
    assert shares(chunk)[0, 1, ..., 0].tolist() == [[half, half, 0], [0, 0, 0]]


# An example of four voxels in two classes, the last without a label: probabilities of class 1 are 0.5, 0.75, 0.25.
VOLUMES = logits([[[0.5, 0.5], [0.25, 0.75], [0.75, 0.25], [0.9, 0.1]]])[0]
MASKS = torch.tensor([[0, 1, 1, -1]])


def test_dice_by_hand() -> None:
    # Class 0: p = 0.5 + 0.25 + 0.75 = 1.5, g = 1, p g = 0.5: 1 / 2.5. Class 1: p = 1.5, g = 2, p g = 1: 2 / 3.5.
    expected = 1 - (1 / 2.5 + 2 / 3.5) / 2
    assert dice_losses(VOLUMES, MASKS).tolist() == pytest.approx([expected], rel=1e-6)
    assert float(batch_loss("segmentation", VOLUMES, MASKS, None)) == pytest.approx(expected, rel=1e-6)


def test_dice_is_1_where_all_is_as_expected_and_0_where_nothing_is() -> None:
    masks = torch.tensor([[0, 1, 1, 0]] * 2)
    right = torch.nn.functional.one_hot(masks[0], 2) * 200.0
    losses = dice_losses(torch.stack([right, right.flip(1)]), masks)
    assert losses.tolist() == pytest.approx([0, 1], abs=1e-6)


def test_dice_is_flambys_score_of_one_hot_masks_in_three_dimensions() -> None:
    draw = np.random.default_rng(0)
    scores, masks = draw.normal(size=(3, 4, 5, 2, 2)), draw.integers(2, size=(3, 4, 5, 2))
    p = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    g = np.stack([masks == 0, masks == 1], -1)
    # Its metric: the intersection over half of the sum, both over the volume.
    metric = (p * g).sum((1, 2, 3)) / (0.5 * (p + g).sum((1, 2, 3)) + 1e-7)
    found = example_losses("segmentation", torch.from_numpy(scores).float(), torch.from_numpy(masks))
    assert (1 - found).tolist() == pytest.approx(metric.mean(1), abs=1e-6)
    total = summed_loss("segmentation", torch.from_numpy(scores).float(), torch.from_numpy(masks))
    assert float(total) == pytest.approx(3 - metric.mean(1).sum(), abs=1e-5)
