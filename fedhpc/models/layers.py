"""The layers that torch lacks or does otherwise. A model is a tree of these and of torch's own, so that it can be read
layer by layer and computed in another way."""

import torch
from torch import nn


class Image(nn.Module):
    """Images as they lie in the data, as convolutions take them.

    Takes float32 [batch, height, width] or, with the channels last, [batch, height, width, channels]; returns a view,
    [batch, channels, height, width].
    """

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        with_channels = images.unsqueeze(3) if images.ndim == 3 else images
        return with_channels.permute(0, 3, 1, 2)


class Residual(nn.Module):
    """``body(x) + shortcut(x)`` (He et al. 2016); an empty ``nn.Sequential`` is the identity."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = self.body(x) + self.shortcut(x)
        return total


class GlobalAverage(nn.Module):
    """Each channel's mean: [batch, channels, height, width] to [batch, channels]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean((2, 3))


class Codes(nn.Module):
    """Whole numbers as an embedding takes them: float32 or int64 [batch, ...] to int64."""

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return codes.long()


class LastState(nn.Module):
    """torch's LSTM, ``layers`` of them one on the other: float32 [batch, time, inputs] to the topmost state after the
    last step, [batch, units]."""

    def __init__(self, inputs: int, units: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, units, layers, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self.lstm(x)[0]
        return states[:, -1]


class LSTM(nn.Module):
    """One layer of long short-term memory, from a state of zeros (Hochreiter and Schmidhuber 1997; Gers et al. 2000).

    Takes float32 [batch, time, inputs], returns the states, [batch, time, units]. It has one bias where torch's LSTM
    has two that only ever act as their sum. ``input_weight`` [4 units, inputs], ``state_weight`` [4 units, units] and
    ``bias`` [4 units] hold the input gate's rows, then the forget gate's, the cell's and the output gate's.
    """

    def __init__(self, inputs: int, units: int) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(4 * units, inputs))
        self.state_weight = nn.Parameter(torch.empty(4 * units, units))
        self.bias = nn.Parameter(torch.empty(4 * units))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(units**-0.5), units**-0.5)  # as torch's LSTM begins

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        projected = nn.functional.linear(x, self.input_weight, self.bias)
        state = cell = x.new_zeros(x.shape[0], self.state_weight.shape[1])
        states = []
        for step in projected.unbind(1):
            enter, forget, value, leave = torch.addmm(step, state, self.state_weight.t()).chunk(4, 1)
            cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(value)
            state = torch.sigmoid(leave) * torch.tanh(cell)
            states.append(state)
        return torch.stack(states, 1)
