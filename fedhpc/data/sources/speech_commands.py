"""Google's Speech Commands (Warden 2018): a folder a word, and in it a WAV file for each time a speaker said it."""

import re
from functools import partial
from pathlib import Path

import numpy as np

from fedhpc.data.examples import Examples
from fedhpc.data.public_settings import SpeechCommands
from fedhpc.data.read_rows import ReadRows
from fedhpc.data.sources.coding import codes
from fedhpc.data.sources.inside import inside
from fedhpc.data.sources.naming import is_name, mistake
from fedhpc.data.sources.recordings import spectrogram
from fedhpc.mistakes import nearest

_NAME = re.compile(r"(?P<speaker>[^_]+)_nohash_\d+\.wav")
_TESTING = "testing_list.txt"


def load_speech_commands(settings: SpeechCommands) -> Examples:
    """Spectrograms [bands, moments], read when they are used, by word and then by file name; the words, in sorted
    order, are the classes, and the speakers of training examples the clients.

    What ``testing_list.txt`` names is held out, and all else is for training, what ``validation_list.txt`` names
    included. ``_background_noise_`` and any other folder whose name begins so is no word. Raises ExperimentError where
    a word is unknown or has no recording, a file's name tells no speaker, or the list names what is not there.
    """
    folder = settings.folder
    words = _words(settings)
    testing = _testing(folder, words)
    files, labels, speakers, held_out = [], [], [], []
    for label, word in enumerate(words):
        names = sorted(found.name for found in (folder / word).iterdir() if found.suffix == ".wav")
        if not names:
            raise mistake(folder / word, "folder", "the folder of this word holds no WAV file; fetch the data anew")
        for name in names:
            told = _NAME.fullmatch(name)
            if told is None or not is_name(word + told["speaker"]):
                raise mistake(
                    folder / word / name, "folder", "the file's name tells no speaker, as <speaker>_nohash_<number>.wav"
                )
            files.append(str(folder / word / name))
            labels.append(label)
            speakers.append(told["speaker"])
            held_out.append(f"{word}/{name}" in testing)
            testing.discard(f"{word}/{name}")
    if testing:
        raise mistake(folder / _TESTING, "folder", f"there is no '{min(testing)}', which the list names; fetch it anew")
    kept_out = np.array(held_out)
    clients = np.full(len(files), -1)
    clients[~kept_out], names_of = codes(np.array(speakers)[~kept_out])
    read = partial(spectrogram, bands=settings.bands, key="folder")
    features = ReadRows(files, (settings.bands, settings.bands), read)
    return Examples(features, np.array(labels), kept_out, words, clients, names_of)


def _words(settings: SpeechCommands) -> tuple[str, ...]:
    if not settings.folder.is_dir():
        raise mistake(settings.folder, "folder", "it is a file; unpack it, and name the folder")
    there = sorted(
        found.name for found in settings.folder.iterdir() if found.is_dir() and not found.name.startswith(("_", "."))
    )
    if settings.words is None:
        if len(there) < 2:
            raise mistake(settings.folder, "folder", "the folder holds no folders of words; name the one that does")
        return tuple(there)
    for word in settings.words:
        if word not in there:
            told = f"there is no word '{word}'{nearest(word, there)}; there are {', '.join(there)}"
            raise mistake(settings.folder, "words", told)
    return tuple(sorted(settings.words))


def _testing(folder: Path, words: tuple[str, ...]) -> set[str]:
    """What the list of held-out recordings names of these words."""
    path = folder / _TESTING
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise mistake(path, "folder", f"the list of held-out recordings cannot be read: {error}") from None
    names = {line.strip() for line in lines if line.strip()}
    for name in sorted(names):
        if not inside(name):
            raise mistake(path, "folder", f"'{name}' leaves the folder; it takes paths within {folder}")
    return {name for name in names if name.partition("/")[0] in words}
