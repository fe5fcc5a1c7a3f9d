"""A small causal transformer for next-word prediction (Vaswani et al. 2017; normalised before each part, as Radford et
al. 2019 have it).

RELAY trains ALBERT on Reddit and StackOverflow. This is a stand-in for it, and not that model: it learns the same task
with the same kind of layers, at a size that many clients can be simulated with. Nothing is dropped out.
"""

import torch
from torch import nn

from fedhpc.models.layers import Codes
from fedhpc.models.tables import TRANSFORMER_WIDENING


class CausalAttention(nn.Module):
    """Each place asks itself and those before it, by ``heads`` heads.

    Written as products and a softmax: the fused kernels' gradients differ from run to run on a GPU (law 3).
    Takes and returns float32 [batch, time, width].
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.asked, self.together = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        query, key, value = self.asked(x).view(batch, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.mT * (width // self.heads) ** -0.5
        later = torch.ones(time, time, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        result: torch.Tensor = self.together((weights @ value).transpose(1, 2).reshape(batch, time, width))
        return result


class Block(nn.Module):
    """Attention, then a perceptron at each place, each added to what it takes."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), CausalAttention(width, heads))
        inner = TRANSFORMER_WIDENING * width
        self.perceptron = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x)
        total: torch.Tensor = x + self.perceptron(x)
        return total


class Places(nn.Module):
    """Adds a vector for each place of a sentence: float32 [batch, time, width]."""

    def __init__(self, time: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.Parameter(torch.empty(time, width))
        nn.init.normal_(self.vectors)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.vectors


def transformer(time: int, tokens: int, layers: int, width: int, heads: int) -> nn.Sequential:
    """Takes [batch, time], codes below ``tokens`` as int64 or as the float32 of the data; returns logits of each next
    token, [batch, time, tokens]."""
    blocks = [Block(width, heads) for _ in range(layers)]
    return nn.Sequential(
        Codes(),
        nn.Embedding(tokens, width),
        Places(time, width),
        *blocks,
        nn.LayerNorm(width),
        nn.Linear(width, tokens),
    )
