import pytest
import torch
from pydantic import ValidationError
from torch import nn

from fedhpc.models.architectures import build_model
from fedhpc.models.settings import Transformer

SMALL = Transformer(name="transformer", layers=2, width=6, heads=3)


def test_parameters_layer_by_layer():
    module = build_model(SMALL, (5,), 11)
    of_attention = (6 * 18 + 18) + (6 * 6 + 6)
    of_perceptron = (6 * 24 + 24) + (24 * 6 + 6)
    of_block = 2 * 12 + of_attention + of_perceptron
    expected = 11 * 6 + 5 * 6 + 2 * of_block + 12 + (6 * 11 + 11)
    assert sum(parameter.numel() for parameter in module.parameters()) == expected


def test_a_block_is_torchs_own_encoder_layer_that_normalises_first():
    _, embedding, places, first, _, norm, last = build_model(SMALL.model_copy(update={"layers": 2}), (5,), 11)
    theirs = nn.TransformerEncoderLayer(6, 3, 24, 0.0, "gelu", batch_first=True, norm_first=True)
    (norm1, attention), (norm2, widen, _, narrow) = first.attention, first.perceptron
    theirs.self_attn.in_proj_weight, theirs.self_attn.in_proj_bias = attention.asked.weight, attention.asked.bias
    theirs.self_attn.out_proj.weight, theirs.self_attn.out_proj.bias = (
        attention.together.weight,
        attention.together.bias,
    )
    theirs.norm1, theirs.norm2, theirs.linear1, theirs.linear2 = norm1, norm2, widen, narrow
    x = torch.randn(2, 5, 6)
    later = nn.Transformer.generate_square_subsequent_mask(5)
    torch.testing.assert_close(first(x), theirs(x, src_mask=later), rtol=1e-4, atol=1e-6)
    codes = torch.tensor([[1, 2, 3, 4, 5]])
    assert torch.equal(places(embedding(codes))[0], embedding.weight[1:6] + places.vectors)
    assert (norm.normalized_shape, last.out_features) == ((6,), 11)


def test_no_place_knows_of_those_behind_it():
    module = build_model(SMALL, (5,), 11)
    codes = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]])
    scores = module(codes)
    assert scores.shape == (1, 5, 11)
    other = codes.clone()
    other[0, 3] = 9.0
    assert torch.equal(module(other)[0, :3], scores[0, :3])
    assert not torch.equal(module(other)[0, 3:], scores[0, 3:])


def test_heads_that_do_not_share_the_width_are_refused():
    with pytest.raises(ValidationError, match="heads: 4 do not share a width of 6; give a divisor of it"):
        Transformer(name="transformer", width=6)
