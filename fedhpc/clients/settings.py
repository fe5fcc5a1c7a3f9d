"""What a client is asked to do with the model that it downloads."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedhpc.optimizers import SGD, Optimizer
from fedhpc.settings import Settings

MOST_STEPS = 10**9

Counted = Literal["computation", "overhead_and_computation"]


class TimeLimit(Settings):
    """Time-limited client computation (Hard et al., sections 2.1 and D.2): a client takes the mini-batches that fit.

    The limit is so many virtual ``seconds``, or the ``percentile`` of what the epochs or steps take in the population.
    ``of``: what counts is the time for examples and steps alone, or the system constant C (``overhead``) as well;
    communication never does. ``percentile_of``: what the percentile is taken of, where that is another (the paper's two
    scenarios differ in it). ``beyond``: whether a client with time left takes more than its epochs or steps.
    """

    seconds: float | None = Field(None, gt=0, le=1e15)
    percentile: float | None = Field(None, gt=0, le=100)
    of: Counted = "computation"
    percentile_of: Counted | None = None
    beyond: bool = True

    @model_validator(mode="after")
    def _one_limit(self) -> "TimeLimit":
        if (self.seconds is None) == (self.percentile is None):
            raise ValueError("seconds: give either seconds or percentile, one of them and not both")
        if self.percentile is None and self.percentile_of is not None:
            raise ValueError("percentile_of: goes with percentile; remove it, or give percentile in place of seconds")
        return self


class ClientSettings(Settings):
    """Local training: so many epochs or steps of mini-batches; the optimiser's state is fresh at each participation.

    ``proximal`` is FedProx's mu (Li et al. 2020): the loss gains mu/2 times the squared distance to the model that
    the client downloaded. ``distillation`` is FARe-DUST's rho (Hard et al. 2023, algorithm 3): the loss gains rho times
    the cross-entropy to the softmax of the teacher's logits, where the client is given a teacher. ``clip`` is the
    longest that an update may be in the L2 norm over all weights; a longer one is shortened to it (FedBuff: Nguyen et
    al. 2022, algorithm 1, line 7). ``rate_normalization`` multiplies a step's rate by the part of ``batch_size`` that
    its batch fills (FedBuff, section 5). ``time_limit`` takes the place of the epochs or steps, which then say what its
    percentile is taken from.

    ``within_deadline``: what a client does that cannot do all its epochs by the scenario's deadline (FedCore: Guo et
    al. 2024, sections 4 and 6.1). It takes no part (``drop``: FedAvg-DS), takes as many whole epochs as fit
    (``fewer_epochs``: FedProx), or trains on a ``coreset``; where it is left out, the deadline is nothing to it.
    ``record_coreset_error``: a server update's ``coreset_error`` is kept, which costs a gradient over all examples for
    each coreset.

    ``precision`` changes the numbers: ``tf32`` (GPUs only) rounds what matrix products take to ten bits of mantissa,
    ``bf16`` computes them and the activations in bfloat16; weights stay in float32.
    """

    batch_size: int = Field(ge=1, le=10**9)
    epochs: int | None = Field(None, ge=1, le=10**6)
    steps: int | None = Field(None, ge=1, le=MOST_STEPS, validate_default=True)
    optimizer: Optimizer
    proximal: float = Field(0.0, ge=0, le=1e30)
    distillation: float = Field(0.0, ge=0, le=1e30)
    clip: float | None = Field(None, gt=0, le=1e30)
    rate_normalization: bool = False
    time_limit: TimeLimit | None = None
    within_deadline: Literal["drop", "fewer_epochs", "coreset"] | None = None
    record_coreset_error: bool = False
    precision: Literal["fp32", "tf32", "bf16"] = "fp32"

    @field_validator("steps")
    @classmethod
    def _one_measure_of_work(cls, steps: int | None, others: ValidationInfo) -> int | None:
        # Where epochs itself is wrong it is not among the others, and that mistake is told already.
        if "epochs" in others.data and (others.data["epochs"] is None) == (steps is None):
            raise ValueError("epochs: give either epochs or steps, one of them and not both")
        return steps

    @field_validator("rate_normalization")
    @classmethod
    def _rate_is_all_of_a_step(cls, wanted: bool, others: ValidationInfo) -> bool:
        optimizer = others.data.get("optimizer")
        if wanted and optimizer is not None and (not isinstance(optimizer, SGD) or optimizer.momentum):
            raise ValueError(
                "scales the steps of plain sgd only, which keep nothing of the steps before; leave it out, or make the "
                "client's optimizer sgd without momentum"
            )
        return wanted

    @field_validator("within_deadline")
    @classmethod
    def _a_deadline_is_for_epochs(cls, within: str | None, others: ValidationInfo) -> str | None:
        if within is None:
            return within
        if "epochs" in others.data and others.data["epochs"] is None:
            raise ValueError("a deadline is for clients that take epochs; give epochs and no steps, or leave it out")
        if others.data.get("time_limit") is not None:
            raise ValueError("either a deadline or a time_limit ends a client's work; leave one of them out")
        if within == "coreset" and others.data.get("distillation"):
            raise ValueError("coresets are not for distillation, which learns from more than the labels; leave one out")
        return within

    @field_validator("record_coreset_error")
    @classmethod
    def _there_are_coresets(cls, wanted: bool, others: ValidationInfo) -> bool:
        if wanted and others.data.get("within_deadline", "coreset") != "coreset":
            raise ValueError("there are no coresets whose error could be kept; give within_deadline: coreset")
        return wanted

    def local_steps(self, examples: int) -> int:
        """Mini-batches that a client with this many examples trains on without a time limit; none if it has no
        example."""
        if examples == 0:
            return 0
        if self.steps is not None:
            return self.steps
        assert self.epochs is not None
        return self.epochs * self.batches(examples)

    def batches(self, examples: int) -> int:
        """Mini-batches of one pass over so many examples."""
        return -(-examples // self.batch_size)

    def examples_processed(self, examples: int, steps: int) -> int:
        """Examples that so many mini-batches hold, for a client with ``examples``; a pass's last one may be short."""
        if examples == 0:
            return 0
        passes, rest = divmod(steps, self.batches(examples))
        return passes * examples + min(rest * self.batch_size, examples)
