"""The LSTM of many clients at once: a batched product a time step, and one for all steps wherever time allows."""

from typing import Any

import torch

_sigmoid_backward = torch.ops.aten.sigmoid_backward
_tanh_backward = torch.ops.aten.tanh_backward


def stacked_lstm(
    x: torch.Tensor, input_weight: torch.Tensor, state_weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """``fedhpc.models.layers.LSTM`` with each client's own parameters.

    ``x`` [C, batch, time, inputs], ``input_weight`` [C, 4 units, inputs], ``state_weight`` [C, 4 units, units],
    ``bias`` [C, 4 units], to the states, [C, batch, time, units].
    """
    states: torch.Tensor = _StackedLSTM.apply(x, input_weight, state_weight, bias)  # type: ignore[no-untyped-call]
    return states


class _StackedLSTM(torch.autograd.Function):
    """Autograd alone would sum the state weight's gradient anew at each step; here it is one product of all steps."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, input_weight: torch.Tensor, state_weight: torch.Tensor, bias: torch.Tensor
    ) -> torch.Tensor:
        clients, batch, time, _ = x.shape
        units = state_weight.shape[2]
        inputs = x.transpose(1, 2).flatten(1, 2)
        gates = torch.baddbmm(bias.unsqueeze(1), inputs, input_weight.mT).view(clients, time, batch, 4 * units)
        cells = gates.new_empty(clients, time, batch, units)
        states = gates.new_empty(clients, time, batch, units)
        for step in range(time):
            gate = gates[:, step]
            if step:
                gate.baddbmm_(states[:, step - 1], state_weight.mT)
            gate[..., : 2 * units].sigmoid_()
            gate[..., 2 * units : 3 * units].tanh_()
            gate[..., 3 * units :].sigmoid_()
            enter, forget, value, leave = gate.chunk(4, -1)
            torch.mul(enter, value, out=cells[:, step])
            if step:
                cells[:, step].addcmul_(forget, cells[:, step - 1])
            torch.mul(leave, torch.tanh(cells[:, step]), out=states[:, step])
        ctx.save_for_backward(inputs, input_weight, state_weight, gates, cells, states)
        return states.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        inputs, input_weight, state_weight, gates, cells, states = ctx.saved_tensors
        of_gates = torch.empty_like(gates)
        of_state = of_cell = torch.zeros_like(states[:, 0])
        for step in reversed(range(gates.shape[1])):
            enter, forget, value, leave = gates[:, step].chunk(4, -1)
            of_enter, of_forget, of_value, of_leave = of_gates[:, step].chunk(4, -1)
            of_state = of_state + gradient[:, :, step]
            squashed = torch.tanh(cells[:, step])
            of_leave.copy_(_sigmoid_backward(of_state * squashed, leave))
            of_cell = of_cell + _tanh_backward(of_state * leave, squashed)
            of_enter.copy_(_sigmoid_backward(of_cell * value, enter))
            of_value.copy_(_tanh_backward(of_cell * enter, value))
            if step:
                of_forget.copy_(_sigmoid_backward(of_cell * cells[:, step - 1], forget))
                of_cell = of_cell * forget
                of_state = torch.bmm(of_gates[:, step], state_weight)
            else:
                of_forget.zero_()
        rows = of_gates.flatten(1, 2)
        of_x = torch.bmm(rows, input_weight).view(*gates.shape[:3], -1).transpose(1, 2)
        of_input_weight = torch.bmm(rows.mT, inputs)
        of_state_weight = torch.bmm(of_gates[:, 1:].flatten(1, 2).mT, states[:, :-1].flatten(1, 2))
        return of_x, of_input_weight, of_state_weight, rows.sum(1)
