"""What clients do: local training on their own examples (McMahan et al. 2017; FedProx: Li et al. 2020; distillation:
Hard et al. 2023; clipping and normalised rates: Nguyen et al. 2022; coresets: Guo et al. 2024).

A client update is a pure function of (weights, client, participation, steps, teacher): the order of the examples and
dropout come from the participation's own streams; the optimiser starts fresh (law 2). Clients of a stack train together
and each as if it were alone, up to rounding.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedhpc.clients.batches import Batches
from fedhpc.clients.clipping import clip_factors
from fedhpc.clients.coreset import Coreset, build_coreset, gradient_error, input_gradients, last_layer
from fedhpc.clients.losses import UNLABELLED, example_losses, summed_loss
from fedhpc.clients.noise import STEPS_AT_ONCE, ClientNoise, NoiseSource
from fedhpc.clients.objective import CLASSIFICATION, Objective
from fedhpc.clients.pictures import PictureChanges
from fedhpc.clients.settings import ClientSettings
from fedhpc.clients.steps.chunk import Chunk
from fedhpc.clients.steps.distillation import Teachers
from fedhpc.clients.steps.make_steps import make_steps
from fedhpc.clients.steps.module_steps import ModuleSteps
from fedhpc.clients.steps.step_choice import StepChoice
from fedhpc.clients.work import NO_TEACHER, Member, ShardCounts
from fedhpc.data.federated import FederatedData
from fedhpc.models.architectures import build_model
from fedhpc.models.dropout import noise_bytes
from fedhpc.models.flat import count_statistics
from fedhpc.models.settings import Logistic, Model
from fedhpc.streams import ParticipationStream, Purpose, sequential

Vector = NDArray[np.float32]

_BEST = 5
"""Of how many scores top-5 accuracy asks that the label's be one."""

_CHUNK_BYTES = 1 << 22
"""Features and noise that a CPU gathers at once: as many steps as fit, and at least one."""


class LocalTraining:
    """One rank's workspace: models that train together, and the clients' data. Of a model's vector the last
    ``statistics`` entries are running statistics; a model that has any trains one client at a time."""

    def __init__(
        self,
        model: Model,
        client: ClientSettings,
        data: FederatedData,
        seed: int,
        trial: int,
        choice: StepChoice,
        *,
        objective: Objective = CLASSIFICATION,
        measures_losses: bool = False,
    ) -> None:
        self._data, self._client, self._measures_losses = data, client, measures_losses
        self._objective = objective
        self._shape = objective.model_shape(data.shape)
        self._pictures = None if objective.pictures is None else PictureChanges(objective.pictures, data.shape)
        self._changes = ParticipationStream(seed, trial, Purpose.PICTURES)
        self._orders = ParticipationStream(seed, trial, Purpose.BATCHES)
        self._device = device = torch.device(choice.device)
        self._evaluation_batch = objective.evaluation_batch(device.type)
        self._noise = NoiseSource(seed, trial, device)
        self._features, self._labels = _at_hand(device, data.features, data.labels)
        self._held_out = _at_hand(device, data.test_features, data.test_labels)
        self._offsets = data.offsets.tolist()
        # Batches are filled up to one size, which need not be larger than the largest client.
        self._batch = max(1, min(client.batch_size, int(np.diff(data.offsets).max())))
        self._is_straggler_class = _marked(data.classes, data.straggler_classes).to(device)
        self._is_scored_class = ~_marked(data.classes, data.unscored).to(device)
        self._bears_tag = None if data.test_tagged is None else torch.from_numpy(data.test_tagged).to(device)
        module = _initial_model(model, self._shape, data, seed, trial)
        self._noise_bytes = noise_bytes(module, self._shape)
        self.statistics = count_statistics(module)
        self._steps = make_steps(module.to(device), self._shape, client, choice, objective.kind)
        self._on_device: dict[int, tuple[Vector, torch.Tensor]] = {}
        self._is_convex = isinstance(model, Logistic)
        self._coreset_chances = ParticipationStream(seed, trial, Purpose.CORESET)
        self._static_coresets: dict[tuple[int, int], Coreset] = {}
        self.coreset_error = math.nan
        """The gradient error of the coreset of the last ``update``; NaN where it had none or none is asked for."""
        self.losses: list[float] = []
        """Of the last ``update``, one a member in the order in which they were given: the mean over the client's
        training examples of the squared loss, in squared nats, by the model that it downloaded and with nothing
        dropped out or drawn (a sentence's loss is the mean over its tokens); empty where nobody reads them. Oort's
        statistical utility is the number of examples times the root of it (Lai et al. 2021, section 4.2). Oort's
        clients report losses met while they train; here it is what the global model had still to learn from the client,
        for one more forward pass."""

    def initial_weights(self) -> Vector:
        """Version 0: float32 [parameters + statistics], drawn from the trial's own stream. Call it before any
        training."""
        copy: Vector = self._steps.weights[0].cpu().numpy().copy()
        return copy

    @property
    def shards(self) -> int:
        """Pieces in which the held-out examples are evaluated."""
        return max(1, -(-len(self._data.test_labels) // self._objective.shard))

    @torch.no_grad()
    def update(
        self, versions: Mapping[int, Vector], members: Sequence[Member], between_steps: Callable[[], None]
    ) -> Vector:
        """Trains a stack and returns the weighted sum of its members' deltas (start minus end), float32 [parameters +
        statistics]. Of running statistics it is the weighted sum of where they end, which no clip shortens.

        ``versions`` holds, by their ids, the weights that the members start from and their teachers'. A client's
        examples are reshuffled at every pass; a pass's last batch may be short. ``between_steps`` is called before
        every step and must not train.
        """
        # The first few clients are those that still train: the longest first.
        ordered = sorted(members, key=lambda member: -member.steps)
        start, teachers = self._start(versions, ordered)
        if self._measures_losses:
            self.losses = self._squared_losses(members, between_steps)
        self._steps.begin(start, teachers)
        self.coreset_error = math.nan
        if ordered[0].coreset:
            (member,) = ordered  # such a client is alone in its stack
            self._train_on_coreset(member, between_steps)
        else:
            batches = [self._batches(member) for member in ordered]
            steps, changes = [member.steps for member in ordered], self._changes_of(ordered)
            for chunk in self._chunks(batches, steps, self._noises(ordered), changes):
                self._steps.train(chunk, between_steps)
        end = self._steps.weights[: len(ordered)]
        delta = start - end
        weights = torch.tensor([member.weight for member in ordered], dtype=torch.float64, device=self._device)
        parameters = delta.shape[1] - self.statistics
        statistics = weights.float() @ end[:, parameters:] if self.statistics else None
        if self._client.clip is not None:
            weights *= clip_factors(delta[:, :parameters], self._client.clip)
        update = delta[0].mul_(weights[0]) if len(ordered) == 1 else weights.float() @ delta
        if statistics is not None:
            update[parameters:] = statistics
        result: Vector = update.cpu().numpy()
        return result

    def evaluate(self, weights: Vector, shard: int, between_pieces: Callable[[], None] = lambda: None) -> ShardCounts:
        """Counts of one shard of the held-out examples. ``between_pieces`` is called after every few of them and must
        neither train nor evaluate."""
        module = self._steps.module
        self._steps.weights[0].copy_(torch.from_numpy(weights))
        module.eval()
        # Added up at the end, so that a GPU is waited for once.
        correct, of_stragglers, losses, best, of_classes = [], [], [], [], []
        objective, classes = self._objective, self._data.classes
        last = min((shard + 1) * objective.shard, len(self._data.test_labels))
        for first in range(shard * objective.shard, last, self._evaluation_batch):
            with torch.inference_mode():
                piece = slice(first, min(first + self._evaluation_batch, last))
                features, labels = (tensor[piece].to(self._device) for tensor in self._held_out)
                scores = module(self._as_evaluated(features))
                # What has no label is no hit, so that it matters not which class it is looked up as.
                known = labels.clamp(min=0)
                scored = (labels != UNLABELLED) & self._is_scored_class[known]
                hits = (scores.argmax(-1) == labels) & scored
                correct.append(hits.sum())
                if self._bears_tag is None:
                    of_stragglers.append((hits & self._is_straggler_class[known]).sum())
                else:
                    of_stragglers.append(hits[self._bears_tag[piece]].sum())
                losses.append(summed_loss(objective.kind, scores, labels))
                if objective.top5:
                    among = (scores.topk(min(_BEST, classes), -1).indices == labels.unsqueeze(-1)).any(-1)
                    best.append((among & scored).sum())
                if objective.balanced:
                    of_classes.append(torch.bincount(labels[hits], minlength=classes))
            between_pieces()
        module.train()
        by_class = tuple(torch.stack(of_classes).sum(0).tolist()) if of_classes else ()
        return ShardCounts(_total(correct), _total(of_stragglers), _total(losses), _total(best), by_class)

    def _as_evaluated(self, features: torch.Tensor) -> torch.Tensor:
        """Features as the model takes them where nothing is drawn."""
        return features if self._pictures is None else self._pictures.evaluate(features)

    def _start(self, versions: Mapping[int, Vector], members: list[Member]) -> tuple[torch.Tensor, Teachers | None]:
        """The weights that each member starts from, float32 [members, parameters], and its teacher's."""
        starts, teachers = [member.version for member in members], None
        taught = [bool(self._client.distillation) and member.teacher != NO_TEACHER for member in members]
        # Who has no teacher is in its own place, where it counts nothing.
        lessons = [member.teacher if own else member.version for member, own in zip(members, taught, strict=True)]
        before, self._on_device = self._on_device, {}
        for vector in {*starts, *lessons}:
            # A GPU keeps the vectors of the stack before: often they are this one's too.
            source = versions[vector]
            kept = before.get(vector)
            if kept is None or kept[0] is not source:
                kept = (source, torch.from_numpy(source).to(self._device))
            self._on_device[vector] = kept
        if any(taught):
            strengths = torch.tensor(taught, device=self._device) * self._client.distillation
            teachers = Teachers(self._rows(lessons), strengths)
        return self._rows(starts), teachers

    def _rows(self, vectors: list[int]) -> torch.Tensor:
        """Float32 [vectors, parameters]."""
        if len(set(vectors)) == 1:
            return self._on_device[vectors[0]][1].expand(len(vectors), -1)
        return torch.stack([self._on_device[vector][1] for vector in vectors])

    def _train_on_coreset(self, member: Member, between_steps: Callable[[], None]) -> None:
        """An epoch on everything, where there is one, then the other epochs on the coreset (FedCore, section 4)."""
        first, last = self._offsets[member.client], self._offsets[member.client + 1]
        order = self._orders.own(member.client, member.participation)
        noises = self._noises([member])
        whole = member.whole_epochs * -(-(last - first) // self._batch)
        steps = self._steps
        watched = None
        if isinstance(steps, ModuleSteps) and whole and not self._is_convex:
            watched = steps.watched = []
        try:
            for chunk in self._chunks([Batches(order, first, last - first, self._batch)], [whole], noises, []):
                steps.train(chunk, between_steps)
        finally:
            if isinstance(steps, ModuleSteps):
                steps.watched = None
        coreset = self._coreset(member, watched)
        if self._client.record_coreset_error:
            features, labels = (tensor[first:last].to(self._device) for tensor in (self._features, self._labels))
            self.coreset_error = gradient_error(steps.module, features, labels, coreset)
        batches = Batches(order, 0, member.coreset, self._batch)
        for chunk in self._chunks([batches], [member.steps - whole], noises, [], coreset, first):
            steps.train(chunk, between_steps)

    def _coreset(self, member: Member, watched: list[torch.Tensor] | None) -> Coreset:
        """The client's coreset. ``watched``: the gradients at the last layer's input, in the order of the first epoch,
        or None where there was none; then those of the model as it is."""
        first, last = self._offsets[member.client], self._offsets[member.client + 1]
        if self._is_convex:
            # The same in every round: it depends on the examples alone.
            known = (member.client, member.coreset)
            if known not in self._static_coresets:
                inputs = self._features[first:last].flatten(1).cpu()
                chance = self._coreset_chances.own(member.client, 0)
                self._static_coresets[known] = build_coreset(inputs, member.coreset, chance)
            return self._static_coresets[known]
        if watched is None:
            gradients = self._forward_gradients(first, last)
        else:
            passed = self._orders.own(member.client, member.participation).permutation(last - first)
            gradients = torch.empty(last - first, watched[0].shape[1])
            gradients[torch.from_numpy(passed)] = torch.cat(watched).cpu()
        chance = self._coreset_chances.own(member.client, member.participation)
        return build_coreset(gradients, member.coreset, chance)

    def _forward_gradients(self, first: int, last: int) -> torch.Tensor:
        """The gradients at the last layer's input of the model as it is, with nothing dropped out: float32 [examples,
        inputs], on the CPU."""
        module = self._steps.module
        module.eval()
        pieces = []
        for start in range(first, last, self._evaluation_batch):
            piece = slice(start, min(start + self._evaluation_batch, last))
            features, labels = self._features[piece].to(self._device), self._labels[piece].to(self._device)
            pieces.append(input_gradients(module(features), labels, last_layer(module).weight).cpu())
        module.train()
        return torch.cat(pieces)

    def _squared_losses(self, members: Sequence[Member], between_pieces: Callable[[], None]) -> list[float]:
        """The members' ``losses``, each computed by itself, so that a stack changes none."""
        module = self._steps.module
        module.eval()
        counts, sums = [], []
        for member in members:
            self._steps.weights[0].copy_(self._on_device[member.version][1])
            first, last = self._offsets[member.client], self._offsets[member.client + 1]
            starts = range(first, last, self._evaluation_batch)
            for start in starts:
                between_pieces()
                piece = slice(start, min(start + self._evaluation_batch, last))
                features, labels = (tensor[piece].to(self._device) for tensor in (self._features, self._labels))
                losses = example_losses(self._objective.kind, module(self._as_evaluated(features)), labels)
                sums.append(losses.double().square().sum())
            counts.append((len(starts), last - first))
        module.train()
        # Brought over once, so that a GPU is waited for once.
        pieces = iter(torch.stack(sums).tolist())
        return [sum(islice(pieces, batches)) / examples for batches, examples in counts]

    def _changes_of(self, members: list[Member]) -> list[np.random.Generator]:
        """Each one's stream for its pictures; none where they stay as they are."""
        if self._pictures is None:
            return []
        return [self._changes.own(member.client, member.participation) for member in members]

    def _noises(self, members: list[Member]) -> list[ClientNoise]:
        """Each one's bytes for dropout; none where the model has none."""
        size = self._batch * self._noise_bytes
        return [self._noise.of(member.client, member.participation, size) for member in members if size]

    def _chunks(
        self,
        batches: list[Batches],
        steps_of: list[int],
        noises: list[ClientNoise],
        changes: list[np.random.Generator],
        coreset: Coreset | None = None,
        first: int = 0,
    ) -> Iterator[Chunk]:
        """A stack's mini-batches: so many steps of each client, the longest first; ``changes`` are the streams by which
        each one's pictures are changed, none where they stay as they are. With a ``coreset``, that of the one client
        whose first row is ``first``, the batches are of it."""
        size = self._batch
        step_bytes = size * (4 * math.prod(self._shape) + self._noise_bytes)
        done = 0
        while done < steps_of[0]:
            clients = sum(own > done for own in steps_of)
            steps = STEPS_AT_ONCE if self._device.type == "cuda" else max(1, _CHUNK_BYTES // (step_bytes * clients))
            steps = min(steps, steps_of[0] - done)
            rows = np.zeros((steps, clients, size), np.int64)
            filled = np.zeros((steps, clients), np.int64)
            for place in range(clients):
                own = min(steps, steps_of[place] - done)
                rows[:own, place], filled[:own, place] = batches[place].take(own)
            noise = torch.stack([noise.take(steps) for noise in noises[:clients]], 1) if noises else None
            weights = None
            if coreset is not None:
                weights = torch.from_numpy(coreset.weights[rows]).to(self._device)
                rows = coreset.rows[rows] + first
            drawn = None
            if self._pictures is not None:
                draw = self._pictures.draw
                drawn = np.stack([draw(stream, steps, size) for stream in changes[:clients]], 1)
            yield self._chunk(rows, filled, noise, weights, drawn)
            done += steps

    def _batches(self, member: Member) -> Batches:
        first, last = self._offsets[member.client], self._offsets[member.client + 1]
        order = self._orders.own(member.client, member.participation)
        return Batches(order, first, last - first, self._batch)

    def _chunk(
        self,
        rows: NDArray[np.int64],
        filled: NDArray[np.int64],
        noise: torch.Tensor | None,
        weights: torch.Tensor | None,
        drawn: NDArray[np.int64] | None,
    ) -> Chunk:
        index = torch.from_numpy(rows.reshape(-1)).to(self._features.device)
        if self._pictures is None or drawn is None:
            features = self._features[index].to(self._device)
        else:
            features = self._pictures.train(self._features, index, drawn.reshape(-1, drawn.shape[-1])).to(self._device)
        labels = self._labels[index].to(self._device)
        return Chunk(
            (filled > 0).sum(1).tolist(),
            filled.tolist(),
            features.view(*rows.shape, *features.shape[1:]),
            labels.view(*rows.shape, *labels.shape[1:]),
            None if noise is None else noise.view(*rows.shape, self._noise_bytes),
            weights,
        )


def _at_hand(device: torch.device, *arrays: NDArray[np.generic]) -> list[torch.Tensor]:
    """The arrays as tensors: mapped from their file, so that the ranks of a node share them, or on the GPU if they take
    no more than half of what is free there."""
    tensors = [torch.from_numpy(array) for array in arrays]
    if device.type == "cuda" and sum(tensor.nbytes for tensor in tensors) < torch.cuda.mem_get_info(device)[0] / 2:
        return [tensor.to(device) for tensor in tensors]
    return tensors


def _marked(classes: int, some: NDArray[np.int64]) -> torch.Tensor:
    """Bool [classes]: whether a class is one of ``some``."""
    marked = torch.zeros(classes, dtype=torch.bool)
    marked[torch.from_numpy(some)] = True
    return marked


def _total(numbers: list[torch.Tensor]) -> Any:
    """Their sum, one after another in Python's arithmetic; 0 of none."""
    return sum(torch.stack(numbers).tolist()) if numbers else 0


def _initial_model(
    settings: Model, shape: tuple[int, ...], data: FederatedData, seed: int, trial: int
) -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(sequential(seed, trial, Purpose.INITIAL_MODEL).integers(2**62)))
        return build_model(settings, shape, data.classes, data.words)
