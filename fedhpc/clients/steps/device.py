"""The device that a rank trains on, and the rules for its kernels."""

import os
from typing import Literal

import torch

from fedhpc.clients.steps.step_choice import NoDevice, StepChoice


def prepare_device(choice: StepChoice, precision: Literal["fp32", "tf32", "bf16"], local_rank: int = 0) -> None:
    """One CPU thread a rank; kernels that give the same bits every time, unless the choice waives it; matrix products
    in the precision asked for. Ranks of a host share its GPUs in turn.

    Raises NoDevice where the choice needs a GPU and there is none. Call it before anything is computed.
    """
    torch.set_num_threads(1)
    # What use_deterministic_algorithms() does, without its import of torch's compiler.
    torch.set_deterministic_debug_mode("error" if choice.deterministic else "default")
    # That mode would fill all new memory; what reads memory before it is written is found by the tests.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if choice.device == "cuda":
        if not torch.cuda.is_available():
            raise NoDevice("the step was chosen for a GPU, and this host has none; run where there is one")
        # cuBLAS gives the same bits every time only with a workspace of a fixed size.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.cuda.set_device(local_rank % torch.cuda.device_count())
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.benchmark = not choice.deterministic
