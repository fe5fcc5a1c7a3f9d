"""A workload as files: an experiment, and the images that it reads."""

from pathlib import Path

import numpy as np
import yaml

from workflow.bench.workloads import IMAGE_SHAPE, Images, Workload


def write_workload(workload: Workload, folder: Path) -> Path:
    """Writes the workload into ``folder``, which is made, and returns its experiment file."""
    folder.mkdir(parents=True)
    if workload.images is not None:
        write_images(workload.images, folder / "images.npz")
    file = folder / "experiment.yaml"
    file.write_text(yaml.safe_dump(workload.settings, sort_keys=False), encoding="utf-8")
    return file


def write_images(images: Images, path: Path) -> None:
    """An NPZ file: ``x_{split}``, uint8 [examples, 28, 28]; ``y_{split}``, int64 [examples], in 0..classes-1, every
    class at least once; ``client_train``, int64 [examples], client after client."""
    generator = np.random.default_rng(0)

    def split(examples: int) -> tuple[np.ndarray, np.ndarray]:
        pixels = generator.integers(256, size=(examples, *IMAGE_SHAPE), dtype=np.uint8)
        return pixels, generator.permutation(examples) % images.classes

    x_train, y_train = split(images.clients * images.examples)
    x_test, y_test = split(images.held_out)
    clients = np.repeat(np.arange(images.clients), images.examples)
    np.savez(path, x_train=x_train, y_train=y_train, client_train=clients, x_test=x_test, y_test=y_test)
