import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from fedhpc.clients.steps.device import prepare_device
from fedhpc.clients.steps.step_choice import NoDevice, StepChoice

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    prepare_device(StepChoice(form="plain"), "fp32")


def test_one_thread_and_kernels_that_give_the_same_bits() -> None:
    torch.set_num_threads(2)
    prepare_device(StepChoice(form="plain"), "fp32")
    assert torch.get_num_threads() == 1
    assert torch.are_deterministic_algorithms_enabled()
    prepare_device(StepChoice(form="plain", deterministic=False), "fp32")
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_told_in_words() -> None:
    with pytest.raises(NoDevice, match="this host has none; run where there is one"):
        prepare_device(StepChoice(form="plain", device="cuda"), "fp32")


def test_preparing_a_cpu_starts_neither_torchs_compiler_nor_a_gpu() -> None:
    script = (
        "import sys, torch; from fedhpc.clients.steps.device import prepare_device;"
        "from fedhpc.clients.steps.step_choice import StepChoice; prepare_device(StepChoice(form='plain'), 'fp32');"
        "assert 'torch._dynamo' not in sys.modules and not torch.cuda.is_initialized()"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@GPU
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
def test_only_tf32_rounds_matrix_products_of_float32(precision: str) -> None:
    prepare_device(StepChoice(form="plain", device="cuda"), precision)  # type: ignore[arg-type]
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] in (":4096:8", ":16:8")
    assert torch.backends.cuda.matmul.allow_tf32 == torch.backends.cudnn.allow_tf32 == (precision == "tf32")
    one_third = torch.full((256, 256), 1 / 3, device="cuda")
    rounded = not torch.allclose(one_third @ one_third, torch.full((), 256 / 9, device="cuda"), rtol=1e-5)
    assert rounded == (precision == "tf32")


@GPU
def test_ranks_take_the_gpus_in_turn() -> None:
    for rank in range(2 * torch.cuda.device_count()):
        prepare_device(StepChoice(form="plain", device="cuda"), "fp32", rank)
        assert torch.cuda.current_device() == rank % torch.cuda.device_count()
