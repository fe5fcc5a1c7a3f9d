"""The next-character model of FedCore's Shakespeare task, as LEAF has it (Caldas et al. 2018): from so many characters
to the one that follows. With 90 characters it has 822,570 parameters, torch's two biases of each LSTM among them."""

from torch import nn

from fedhpc.models.layers import Codes, LastState


def shakespeare_lstm(characters: int) -> nn.Sequential:
    """Takes [batch, time], characters' codes below ``characters`` as int64 or as the float32 of the data; returns
    logits of the next one, [batch, characters]."""
    return nn.Sequential(Codes(), nn.Embedding(characters, 8), LastState(8, 256, layers=2), nn.Linear(256, characters))
