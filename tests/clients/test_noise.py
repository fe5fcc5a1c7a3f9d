import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedhpc.clients.noise import STEPS_AT_ONCE, NoiseSource
from tests.clients.steps.cases import DEVICES


def drawn(steps: int, total: int, client: int = 4, participation: int = 2, device: str = "cpu") -> torch.Tensor:
    return NoiseSource(1, 0, torch.device(device)).of(client, participation, total).take(steps)


@given(total=st.integers(1, 40), takes=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_a_cpu_gives_the_same_bytes_however_many_steps_are_taken_at_once(total: int, takes: list[int]) -> None:
    noise = NoiseSource(1, 0, torch.device("cpu")).of(4, 2, total)
    pieces = [noise.take(steps) for steps in takes]
    assert torch.equal(torch.cat(pieces), drawn(sum(takes), total))
    assert pieces[0].dtype == torch.uint8


@pytest.mark.parametrize("device", DEVICES)
def test_the_last_steps_do_not_change_those_before(device: str) -> None:
    assert torch.equal(drawn(STEPS_AT_ONCE, 13, device=device)[:3], drawn(3, 13, device=device))


def test_a_step_starts_with_a_whole_word_of_the_participations_stream() -> None:
    key = np.random.SeedSequence(1, spawn_key=(0, 6)).generate_state(2, np.uint64)
    words = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 2, 4])).bit_generator.random_raw(6)
    expected = [np.frombuffer(words[place : place + 2].astype("<u8").tobytes(), np.uint8)[:11] for place in (0, 2, 4)]
    assert drawn(3, 11).tolist() == [step.tolist() for step in expected]


@pytest.mark.parametrize("device", DEVICES)
def test_every_byte_is_as_likely_as_another(device: str) -> None:
    counts = torch.bincount(drawn(8, 32_768, device=device).cpu().flatten().long(), minlength=256)
    # Chi-squared with 255 degrees of freedom: mean 255, standard deviation 22.6. The stream is fixed: no chance here.
    assert len(counts) == 256
    assert 255 - 5 * 22.6 < float(((counts - 1024.0) ** 2 / 1024).sum()) < 255 + 5 * 22.6


@pytest.mark.parametrize("device", DEVICES)
def test_clients_and_participations_have_their_own_bytes(device: str) -> None:
    keys = [(4, 2), (4, 3), (5, 2), (2, 4)]
    assert len({bytes(drawn(2, 16, *key, device=device).cpu().numpy()) for key in keys}) == len(keys)
    assert torch.equal(drawn(2, 16, 5, 2, device=device), drawn(2, 16, 5, 2, device=device))
