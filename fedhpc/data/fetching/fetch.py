"""A data set of the catalogue, brought to its place below FEDHPC_DATA.

1. What is there already is accepted, be it put there by hand, and checked against what is remembered of it.
2. What lacks is downloaded beside, checked against the published checksum or, without one, against the first time's,
   unpacked beside, and renamed into place.
3. Two fetches of one data set take turns; a killed one's part is gone on from.

Whatever is unfinished lies in ``.fetching/<data set>`` below the folder, on the same file system.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from fedhpc.data.catalogue import DataSet, Download
from fedhpc.data.fetching.download import PAUSES, download, forget
from fedhpc.data.fetching.failures import BadArchive, Broken, Changed, FetchFailed, Refused
from fedhpc.data.fetching.records import BY_HAND, Record, changes, read_records, remember, sha256_of
from fedhpc.data.fetching.unpacking import content_folder, found_in, unpack
from fedhpc.store.lease import LeaseHeld, check_lease, take_lease
from fedhpc.store.replacing import sync, told

_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_BETWEEN_CHECKS = 1.0
_ROOM = 2
"""A download may have so many times the bytes that it is said to have: published sizes are often about."""


class Watch(Protocol):
    """Who is told how it goes."""

    def says(self, sentence: str) -> None:
        """What happens now."""

    def moved(self, done: int, total: int | None) -> None:
        """So many bytes of what is being done are done, of so many where that is known."""


class NotFetched(FetchFailed):
    """No address gave a file. ``reasons``: why, by address. ``place``: where a person may put it."""

    def __init__(self, file: Path, reasons: dict[str, str], place: Path) -> None:
        super().__init__(file, reasons, place)
        self.file, self.reasons, self.place = file, reasons, place

    def __str__(self) -> str:
        return _told_together([self])


class PlacesMissing(FetchFailed):
    """A part of the data set is to be put in its place by hand."""


def fetch(name: str, data_set: DataSet, folder: Path, watch: Watch, pauses: Sequence[float] = PAUSES) -> None:
    """Fetches what lacks of the data set below ``folder``, which is made if need be.

    Raises PlacesMissing where a person must do it, Changed where a file is not what it was on first use, other
    FetchFaileds where a file cannot be had, all in words, and NotWritable where the disk is full. The same call goes on
    after any of them.
    """
    beside = folder / ".fetching" / name
    with told(folder):
        beside.mkdir(parents=True, exist_ok=True)
    with _alone(beside, name, watch) as still_ours:
        if changed := changes(folder, name):
            raise Changed("\n".join(changed))
        failures: list[FetchFailed] = []
        for number, file in enumerate(data_set.files):
            try:
                _Fetch(name, file, folder, beside, number, watch, still_ours, pauses).into_place()
            except FetchFailed as failed:
                failures.append(failed)
        _accept(name, data_set.places, folder)
        if failures:
            raise FetchFailed(_all_of(failures))
    missing = [str(folder / place) for place in data_set.places if not (folder / place).exists()]
    if missing:
        places = "\n".join(f"  {place}" for place in missing)
        raise PlacesMissing(f"{data_set.by_hand}\nThe places:\n{places}")


def _all_of(failures: Sequence[FetchFailed]) -> str:
    """Failures in their order, those of addresses together at the end."""
    unreached = [failed for failed in failures if isinstance(failed, NotFetched)]
    others = [str(failed) for failed in failures if not isinstance(failed, NotFetched)]
    return "\n".join([*others, *([_told_together(unreached)] if unreached else [])])


def _told_together(failures: Sequence[NotFetched]) -> str:
    """Files that no address gave; a reason that all addresses share, and what to do, come once."""
    reasons = [reason for failed in failures for reason in failed.reasons.values()]
    alike = len(reasons) > 1 and len(set(reasons)) == 1
    lines = []
    for failed in failures:
        lines.append(f"{failed.file} could not be fetched; its place is {failed.place}")
        lines += [f"  {address}{'' if alike else f': {reason}'}" for address, reason in failed.reasons.items()]
    if alike:
        lines.append(f"Each time: {reasons[0]}")
    it = "it" if len(failures) == 1 else "each"
    return "\n".join(
        [*lines, f"Download {it} where there is a network, put it at its place, and give this command again."]
    )


@contextmanager
def _alone(beside: Path, name: str, watch: Watch) -> Iterator[Callable[[], None]]:
    """Within, no other fetch of the data set is at work; gives a check of that, which raises LeaseLost."""
    waits = False
    while True:
        try:
            lease = take_lease(beside)
            break
        except LeaseHeld:
            if not waits:
                watch.says(f"another fetch of {name} is at work; this one waits for it")
            waits = True
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    with lease:
        checked = time.monotonic()

        def still_ours() -> None:
            nonlocal checked
            if time.monotonic() - checked > _SECONDS_BETWEEN_CHECKS:
                check_lease(beside, lease.token)
                checked = time.monotonic()

        yield still_ours


def _accept(name: str, places: list[Path], folder: Path) -> None:
    """What was put there by hand is remembered from now on."""
    known = read_records(folder, name)
    found = [place for place in places if str(place) not in known and (folder / place).exists()]
    if found:
        remember(folder, name, {str(place): _record(sha256_of(folder / place), BY_HAND) for place in found})


def _record(sha256: str, source: str) -> Record:
    return Record(sha256, source, datetime.now(UTC).date().isoformat())


class _Fetch:
    """One file of the data set on its way."""

    def __init__(
        self,
        name: str,
        file: Download,
        folder: Path,
        beside: Path,
        number: int,
        watch: Watch,
        still_ours: Callable[[], None],
        pauses: Sequence[float],
    ) -> None:
        self._name, self._file, self._folder, self._watch = name, file, folder, watch
        self._part, self._unpacked = beside / f"{number}.part", beside / f"{number}.unpacked"
        self._still_ours, self._pauses = still_ours, pauses

    def into_place(self) -> None:
        places = self._file.places
        if all((self._folder / place).exists() for place in places):
            if self._file.unpack is None:
                self._check(self._folder / self._file.to, BY_HAND)
            _accept(self._name, places, self._folder)
            return
        archive, source = self._folder / self._file.to, BY_HAND
        if archive.is_file():
            self._watch.says(f"taking {archive}, which is there")
            self._check(archive, BY_HAND)
        else:
            archive, source = self._part, self._downloaded()
        records = {str(self._file.to): _record(_digest(archive, "sha256"), source)}
        if self._file.unpack is None:
            sync(archive)
            self._publish(archive, self._file.to)
        else:
            self._unpack(archive)
            records |= {str(place): _record(sha256_of(self._folder / place), source) for place in places}
        remember(self._folder, self._name, records)
        forget(self._part)

    def _downloaded(self) -> str:
        """Downloads into the part, checked; returns the address that gave it."""
        failures = {}
        for address in self._file.addresses:
            try:
                self._download(address)
                return address
            except (Refused, Broken) as failed:
                failures[address] = str(failed)
        raise NotFetched(self._file.to, failures, self._folder / self._file.to)

    def _download(self, address: str) -> None:
        checked = (self._file.sha256 or self._file.md5) is not None
        most = None if self._file.size is None else _ROOM * self._file.size
        self._watch.says(f"downloading {address}")
        while True:
            kept = download(address, self._part, most, checked, self._moved, self._pauses)
            try:
                self._check(self._part, address)
                return
            except Refused:
                forget(self._part)
                if not kept:
                    raise
                # A part of another version may have been gone on from.
                self._watch.says("what was there of it does not fit; downloading all of it")

    def _check(self, path: Path, source: str) -> None:
        """Raises Refused where the file is not the published one or, where none is published, that of the first use."""
        if path.is_dir():
            raise Refused(f"{path} is a folder, where the data set has a file; remove it and fetch it again")
        for kind, published in (("sha256", self._file.sha256), ("md5", self._file.md5)):
            if published is not None:
                if (found := _digest(path, kind)) != published:
                    raise Refused(f"{_whose(path, source)} has the {kind} {found}, and {published} is published")
                return
        first = read_records(self._folder, self._name).get(str(self._file.to))
        if first is not None and (found := _digest(path, "sha256")) != first.sha256:
            raise Refused(
                f"{_whose(path, source)} has the sha256 {found}, and on its first use ({first.first_used}) it had "
                f"{first.sha256}; if the change is meant, remove checksums/{self._name}.json there"
            )

    def _unpack(self, archive: Path) -> None:
        file = self._file
        assert file.unpack is not None
        assert file.unpacked is not None
        self._watch.says(f"unpacking {archive.name if archive == self._part else archive}")
        with told(self._folder):
            shutil.rmtree(self._unpacked, ignore_errors=True)
            self._unpacked.mkdir()
        try:
            with told(self._folder):
                unpack(archive, file.unpack, self._unpacked, file.unpacked, file.gives[0].name, self._moved)
            names = [place.name for place in file.gives]
            found = content_folder(self._unpacked) if file.whole else found_in(self._unpacked, names)
            if found is None:
                raise BadArchive(f"the archive does not hold {', '.join(names)} side by side")
            for place in file.gives:
                made = found if file.whole else found / place.name
                if not (self._folder / place).exists():
                    if made.is_file():
                        sync(made)
                    self._publish(made, place)
        except BadArchive as bad:
            raise FetchFailed(f"{self._told_of(archive)}: {bad}") from None
        finally:
            shutil.rmtree(self._unpacked, ignore_errors=True)

    def _told_of(self, archive: Path) -> str:
        """Which archive is bad. One that was downloaded is thrown away: the next fetch begins again."""
        if archive != self._part:
            return f"{archive} (remove it, or put a good one there)"
        forget(self._part)
        return str(self._file.to)

    def _publish(self, made: Path, place: Path) -> None:
        self._still_ours()
        target = self._folder / place
        with told(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(made, target)
        sync(target.parent)

    def _moved(self, done: int, total: int | None) -> None:
        self._still_ours()
        self._watch.moved(done, total)


def _whose(path: Path, source: str) -> str:
    return f"{path} (put there by hand)" if source == BY_HAND else "the file"


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()
