"""The network for Sent140's tweets: LEAF's two LSTM layers and two linear ones (Caldas et al. 2018), in FedBuff's sizes
(Nguyen et al. 2022, appendix B.1): 300 numbers a word, 100 units, a linear layer of 128, dropout.

As in the code that FedBuff's authors published (FLSim), dropout stands between the LSTM layers and behind them, and the
state is taken after the last word, not after the padding behind it. The dropout of 0.1 is 26/256 here. Words can begin
with GloVe's vectors (Pennington et al. 2014), which are trained on like any parameter.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from fedhpc.models.dropout import KeyedDropout
from fedhpc.models.layers import Codes
from fedhpc.models.tables import SENT140_LINEAR as LINEAR
from fedhpc.models.tables import SENT140_UNITS as UNITS
from fedhpc.models.tables import SENT140_WIDTH as WIDTH
from fedhpc.models.word_vectors import word_vectors

PADDING = 0
"""The code that stands behind a text's last word."""

_DROPOUT = 26 / 256


class Sent140(nn.Module):
    """Takes [batch, time], words' codes below ``words`` as int64 or as the float32 of the data; returns logits, [batch,
    classes]. A text of nothing but padding has the state after its first place."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.codes, self.embedding = Codes(), nn.Embedding(words, WIDTH)
        self.lower = nn.LSTM(WIDTH, UNITS, batch_first=True)
        self.between = KeyedDropout(_DROPOUT)
        self.upper = nn.LSTM(UNITS, UNITS, batch_first=True)
        self.head = nn.Sequential(KeyedDropout(_DROPOUT), nn.Linear(UNITS, LINEAR), nn.Linear(LINEAR, classes))

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        codes = self.codes(texts)
        states = self.upper(self.between(self.lower(self.embedding(codes))[0]))[0]
        last = ((codes != PADDING).sum(1) - 1).clamp(min=0)
        logits: torch.Tensor = self.head(states.gather(1, last[:, None, None].expand(-1, 1, UNITS)).squeeze(1))
        return logits


def sent140_lstm(words: Sequence[str], classes: int, vectors: Path | None) -> Sent140:
    """``words``: what the codes stand for. ``vectors``: GloVe's file, by which those that it knows begin. Raises
    ExperimentError where the file does not fit."""
    module = Sent140(len(words), classes)
    if vectors is not None:
        with torch.no_grad():
            for code, vector in word_vectors(vectors, words, WIDTH).items():
                module.embedding.weight[code] = torch.from_numpy(vector)
    return module
