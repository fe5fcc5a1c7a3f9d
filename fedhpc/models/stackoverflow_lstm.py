"""The next-word model of Reddi et al. 2021 (table 9), which Hard et al. train on StackOverflow.

The embedding and the last layer do not share their weights, and the LSTM has one bias: 4,050,748 parameters for the
10,000 words and four marks (padding, beginning, end, unknown).
"""

from torch import nn

from fedhpc.models.layers import LSTM, Codes


def stackoverflow_lstm(tokens: int) -> nn.Sequential:
    """Takes [batch, time], codes below ``tokens`` as int64 or as the float32 of the data; returns logits of each next
    token, [batch, time, tokens]."""
    return nn.Sequential(Codes(), nn.Embedding(tokens, 96), LSTM(96, 670), nn.Linear(670, 96), nn.Linear(96, tokens))
