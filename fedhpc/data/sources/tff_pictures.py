"""What is read of TFF's pictures: EMNIST (Cohen et al. 2017) and CIFAR-100 (Krizhevsky 2009)."""

import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedhpc.data.sources.pixels import in_unit
from fedhpc.data.sources.tff_reading import NotAsItShouldBe, Read, in_range
from fedhpc.data.sources.tff_split import Field
from fedhpc.mistakes import nearest

CHARACTERS = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)
"""EMNIST's classes, in the order of their numbers."""

COARSE = (
    *("aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables"),
    *("household_electrical_devices", "household_furniture", "insects", "large_carnivores"),
    *("large_man-made_outdoor_things", "large_natural_outdoor_scenes", "large_omnivores_and_herbivores"),
    *("medium_mammals", "non-insect_invertebrates", "people", "reptiles", "small_mammals", "trees"),
    *("vehicles_1", "vehicles_2"),
)
"""CIFAR-100's twenty coarse classes, in the order of their numbers, which is that of the alphabet."""

FINE = (
    *("apple", "aquarium_fish", "baby", "bear", "beaver", "bed", "bee", "beetle", "bicycle", "bottle", "bowl", "boy"),
    *("bridge", "bus", "butterfly", "camel", "can", "castle", "caterpillar", "cattle", "chair", "chimpanzee", "clock"),
    *("cloud", "cockroach", "couch", "crab", "crocodile", "cup", "dinosaur", "dolphin", "elephant", "flatfish"),
    *("forest", "fox", "girl", "hamster", "house", "kangaroo", "keyboard", "lamp", "lawn_mower", "leopard", "lion"),
    *("lizard", "lobster", "man", "maple_tree", "motorcycle", "mountain", "mouse", "mushroom", "oak_tree", "orange"),
    *("orchid", "otter", "palm_tree", "pear", "pickup_truck", "pine_tree", "plain", "plate", "poppy", "porcupine"),
    *("possum", "rabbit", "raccoon", "ray", "road", "rocket", "rose", "sea", "seal", "shark", "shrew", "skunk"),
    *("skyscraper", "snail", "snake", "spider", "squirrel", "streetcar", "sunflower", "sweet_pepper", "table", "tank"),
    *("telephone", "television", "tiger", "tractor", "train", "trout", "tulip", "turtle", "wardrobe", "whale"),
    *("willow_tree", "wolf", "woman", "worm"),
)
"""CIFAR-100's hundred fine classes, likewise."""


class EMNIST:
    """Pixels from the files' 1 of the paper to 0 of it and 1 of the ink, as Hard et al. 2023 have them by FedJAX (Ro et
    al. 2021). Where no label is above 9 the file is the digits' alone, with ten classes."""

    example, places = (28, 28), ()
    fields: tuple[Field, ...] = (Field("pixels", "floats", (28, 28)), Field("label", "integers", ()))
    unscored: tuple[int, ...] = ()

    def read(self, columns: Mapping[str, Any]) -> Read:
        pixels = columns["pixels"].astype(np.float32, copy=False)
        if not np.isfinite(pixels).all():
            raise NotAsItShouldBe("'pixels' has a value that is not finite")
        return Read(1 - pixels, in_range("label", columns["label"], len(CHARACTERS)), None)

    def class_names(self, labels: NDArray[np.int64]) -> tuple[str, ...]:
        digits = tuple(string.digits)
        return digits if labels.max() < len(digits) else CHARACTERS

    def missing_tags(self) -> Sequence[str]:
        return ()


class CIFAR100:
    """Pixels in 0..1, and the fine labels. A picture bears its coarse class as a tag: ``tags`` are those of the
    straggler clients."""

    example, places = (32, 32, 3), ()
    unscored: tuple[int, ...] = ()

    def __init__(self, tags: Sequence[str]) -> None:
        self.fields: tuple[Field, ...] = (Field("image", "integers", self.example), Field("label", "integers", ()))
        if tags:
            self.fields += (Field("coarse_label", "integers", ()),)
        self._wanted = {tag: COARSE.index(tag) if tag in COARSE else -1 for tag in tags}
        self._seen: set[int] = set()

    def read(self, columns: Mapping[str, Any]) -> Read:
        image = columns["image"]
        if image.min() < 0 or image.max() > 255:
            raise NotAsItShouldBe("'image' has a value outside 0 to 255")
        tagged = None
        if self._wanted:
            coarse = in_range("coarse_label", columns["coarse_label"], len(COARSE))
            tagged = np.isin(coarse, list(self._wanted.values()))
            self._seen.update(coarse[tagged].tolist())
        features = in_unit(image.astype(np.uint8, copy=False))
        return Read(features, in_range("label", columns["label"], len(FINE)), tagged)

    def class_names(self, labels: NDArray[np.int64]) -> tuple[str, ...]:
        return FINE

    def missing_tags(self) -> Sequence[str]:
        missing = [tag for tag, number in self._wanted.items() if number not in self._seen]
        return [f"'{tag}'{'' if tag in COARSE else nearest(tag, COARSE)}" for tag in missing]
