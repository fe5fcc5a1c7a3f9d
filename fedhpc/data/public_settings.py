"""The papers' data sets in the formats in which they are published. ``fedhpc data list`` names them."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fedhpc.settings import Settings

MOST_BANDS = 256
"""Of a recording's spectrogram: more than these would be narrower than what its Fourier transform tells apart."""


class TFF(Settings):
    """A data set of TensorFlow Federated, whose clients are its own: HDF5 files, one of training and one of held-out
    examples (``examples/<client>/<field>``), or one SQLite file that holds both (a table ``examples`` of
    ``split_name``, ``client_id``, ``serialized_example_proto``), which is then ``train``.

    ``emnist``: pixels inverted, so that the paper is 0 and the ink 1; ten classes where all labels are digits, else 62.
    ``cifar100``: in 0..1; the coarse classes are the pictures' tags. ``stackoverflow``: an example is a sentence of
    ``sentence`` tokens, its labels the next ones; the ``words`` most frequent by the ``vocabulary`` (a word and its
    count a line) have numbers, and four marks stand for padding, the beginning, the end and any other word.
    ``most_examples``: of each client, the first so many training examples are kept. ``held_out_examples``: so many of
    the held-out ones, evenly spread, where not all are wanted.
    """

    source: Literal["tff"]
    dataset: Literal["emnist", "cifar100", "stackoverflow"]
    train: Path
    test: Path | None = None
    vocabulary: Path | None = None
    words: int = Field(10_000, ge=1, le=10**6)
    sentence: int = Field(20, ge=1, le=10**4)
    most_examples: int | None = Field(None, ge=1)
    held_out_examples: int | None = Field(None, ge=1)

    @model_validator(mode="after")
    def _files_are_those_of_the_format(self) -> Self:
        sqlite = self.train.suffix == ".sqlite"
        if sqlite and self.test is not None:
            raise ValueError("test: an SQLite file holds both splits; leave it out")
        if not sqlite and self.test is None:
            raise ValueError("test: missing; HDF5 files are two, one of training and one of held-out examples")
        if (self.dataset == "stackoverflow") != (self.vocabulary is not None):
            raise ValueError("vocabulary: goes with dataset stackoverflow; name both or neither")
        return self


class LEAF(Settings):
    """A data set of LEAF (Caldas et al. 2018), whose clients are its users: a JSON file, or a folder of them, with
    ``users``, ``num_samples`` and ``user_data``.

    Held out is what lies in ``test``, or a ``held_out`` share of each user's examples. ``femnist``: 28 by 28, 62
    classes. ``celeba``: the file names pictures of ``images``, which are brought to ``side`` by ``side``, in 0..1.
    ``shakespeare``: 80 characters and the next. ``sent140``: tweets, as the numbers of their first ``sentence`` words
    among the ``words`` most frequent of the training tweets. Users with fewer than ``least_examples`` in ``train`` are
    left out.
    """

    source: Literal["leaf"]
    dataset: Literal["femnist", "celeba", "shakespeare", "sent140"]
    train: Path
    test: Path | None = None
    held_out: float | None = Field(None, gt=0, lt=1)
    images: Path | None = None
    side: int = Field(84, ge=1, le=1024)
    words: int = Field(10_000, ge=1, le=10**6)
    sentence: int = Field(25, ge=1, le=10**4)
    least_examples: int = Field(1, ge=1)

    @model_validator(mode="after")
    def _files_are_those_of_the_format(self) -> Self:
        if (self.test is None) == (self.held_out is None):
            raise ValueError("held_out: give test (a file or a folder) or held_out (a share), and not both")
        if (self.dataset == "celeba") != (self.images is not None):
            raise ValueError("images: goes with dataset celeba, the folder of its pictures; name both or neither")
        return self


class IDX(Settings):
    """MNIST, EMNIST, Fashion-MNIST or QMNIST as published: IDX files, compressed by gzip or not. Labels are those of
    MNIST (idx1-ubyte) or QMNIST (idx2-int). ``writers``: QMNIST's label file of the training part, whose third column
    is the writer, who is then the client. ``transposed``: EMNIST's pictures lie on their side."""

    source: Literal["idx"]
    images: Path
    labels: Path
    test_images: Path
    test_labels: Path
    writers: Path | None = None
    transposed: bool = False


class CIFARBinary(Settings):
    """CIFAR-10 or CIFAR-100 in its binary version: the folder of ``data_batch_1.bin`` and so on, or of ``train.bin``.
    Pixels are divided by 255."""

    source: Literal["cifar"]
    dataset: Literal["cifar10", "cifar100"]
    folder: Path


class SpeechCommands(Settings):
    """Google's Speech Commands (Warden 2018): a folder a word, of WAV files named by speaker, who is the client. What
    ``testing_list.txt`` names is held out, and what ``validation_list.txt`` names is for training. An example is a
    spectrogram of ``bands`` mel bands by as many moments. ``words``: those that are kept; without it all."""

    source: Literal["speech_commands"]
    folder: Path
    words: list[str] | None = Field(None, min_length=2)
    bands: int = Field(32, ge=8, le=MOST_BANDS)

    @field_validator("words", mode="before")
    @classmethod
    def _words_are_words(cls, words: Any) -> Any:
        if isinstance(words, list) and any(isinstance(word, bool) for word in words):
            raise ValueError("without quotes, yes, no, on and off mean true and false in YAML; write them in quotes")
        return words

    @field_validator("words")
    @classmethod
    def _each_once(cls, words: list[str] | None) -> list[str] | None:
        twice = [word for word in words or [] if (words or []).count(word) > 1]
        if twice:
            raise ValueError(f"{twice[0]} is given twice; name each word once")
        return words


class FedScaleFolder(Settings):
    """A data set of FedScale (Lai et al. 2022): a mapping file (``client_id,sample_path,label_name,label_id``) a split,
    and the folder of the pictures or recordings that it names. Pictures become ``side`` by ``side``, recordings
    spectrograms of as many mel bands and moments. ``most_examples``: of each client, the first so many."""

    source: Literal["fedscale"]
    content: Literal["pictures", "recordings"]
    mapping: Path
    folder: Path
    test_mapping: Path
    test_folder: Path
    side: int = Field(32, ge=8, le=1024)
    most_examples: int | None = Field(None, ge=1)

    @field_validator("side")
    @classmethod
    def _bands_are_told_apart(cls, side: int, others: ValidationInfo) -> int:
        if others.data.get("content") == "recordings" and side > MOST_BANDS:
            raise ValueError(f"{side} is too many mel bands of a recording; lower it to at most {MOST_BANDS}")
        return side


class FLamby(Settings):
    """A data set of FLamby (Ogier du Terrail et al. 2022), whose clients are its centres, in the layout in which FLamby
    keeps it, with FLamby's own split into training and held-out examples.

    ``heart_disease``: the folder of UCI's four files, ``processed.cleveland.data`` and so on. ``ixi``: the folder of
    IXI Tiny, scans of brains and their masks, 48 by 60 by 48. ``isic2019``: the folder of the preprocessed pictures, of
    which the middle ``side`` by ``side`` are taken, and the table ``split`` (FLamby's ``train_test_split``) of each
    one's class, centre and fold.
    """

    source: Literal["flamby"]
    dataset: Literal["heart_disease", "ixi", "isic2019"]
    folder: Path
    split: Path | None = None
    side: int = Field(200, ge=1, le=1024)

    @model_validator(mode="after")
    def _a_table_is_isics(self) -> Self:
        if (self.dataset == "isic2019") != (self.split is not None):
            raise ValueError("split: goes with dataset isic2019, its table of centres and folds; name both or neither")
        return self


PublicSource = TFF | LEAF | IDX | CIFARBinary | SpeechCommands | FedScaleFolder | FLamby
