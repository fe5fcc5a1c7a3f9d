"""What devices take: RELAY's formula by hand, their sources, and who has which."""

import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from fedhpc.latency.damaged import DamagedFile
from fedhpc.latency.device_settings import Devices
from fedhpc.latency.device_sources import clusters, devices_of
from fedhpc.latency.devices import DeviceTimes, device_times

MEASURED = Path(os.environ.get("FEDHPC_SHARED", Path(__file__).parents[3] / "shared")) / "data/device_profiles.h5"


def settings(**keys: Any) -> Devices:
    found: Devices = TypeAdapter(Devices).validate_python({"source": "clusters", **keys})
    return found


def capacities(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "client_device_capacity"
    path.write_bytes(pickle.dumps(content))
    return path


def profiles(tmp_path: Path, **arrays: Any) -> Path:
    path = tmp_path / "profiles.h5"
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[f"fedscale_capacity/{name}"] = np.asarray(array)
    return path


def times(devices: Devices, steps: list[int], batch: int = 20, parameters: int | None = None) -> DeviceTimes:
    return device_times(devices, np.array(steps), batch, parameters, 0, 0)


def test_relays_formula_by_hand(tmp_path: Path) -> None:
    path = capacities(tmp_path, {1: {"computation": 50.0, "communication": 4000.0}})
    found = times(settings(source="fedscale", path=path, model_kbit=10_000), [3])
    # 3 x 20 x 3 x 50 / 1000 = 9 s of training, 2 x 10,000 / 4,000 = 5 s of transfer.
    assert found.seconds(0, 3) == pytest.approx(14)
    assert found.updates == pytest.approx([14])
    assert found.per_step == pytest.approx([3])
    # Without steps it is the transfer alone.
    assert found.seconds(0, 0) == pytest.approx(5)


def test_the_model_is_32_bits_a_parameter_unless_it_is_given(tmp_path: Path) -> None:
    path = capacities(tmp_path, {1: {"computation": 50, "communication": 4000}})
    assert times(settings(source="fedscale", path=path), [0], parameters=1_250_000).updates == pytest.approx([20])
    given = settings(source="fedscale", path=path, model_kbit=4000)
    assert times(given, [0], parameters=1_250_000).updates == pytest.approx([2])


def test_the_fastest_so_many_percent_need_half_the_time() -> None:
    plain = times(settings(model_kbit=1000), [2] * 400)
    order = np.argsort(plain.updates)
    for percent, faster in ((0, 0), (25, 100), (75, 300), (100, 400)):
        found = times(settings(model_kbit=1000, faster_percent=percent), [2] * 400)
        factor = np.ones(400)
        factor[order[:faster]] = 0.5
        assert found.per_step == pytest.approx(factor * plain.per_step)
        assert found.communication == pytest.approx(factor * plain.communication)


def test_the_fastest_are_told_by_the_same_work_for_all(tmp_path: Path) -> None:
    # Two devices; the client with the slow one has a hundredth of the other's work, and still is no faster.
    path = capacities(tmp_path, {number: {"computation": 10 + number, "communication": 1e9} for number in range(2)})
    given = {"source": "fedscale", "path": path, "model_kbit": 1}
    computed = times(settings(**given), [1] * 20).per_step
    steps = np.where(computed == computed.max(), 1, 100).tolist()
    quick = int((computed == computed.min()).sum())
    assert 0 < quick < 20
    found = times(settings(**given, faster_percent=100 * quick / 20), steps)
    assert found.per_step == pytest.approx(np.where(computed == computed.min(), computed / 2, computed))


def test_each_client_has_a_device_of_the_file_by_seed_and_trial(tmp_path: Path) -> None:
    content = {number: {"computation": 1 + number, "communication": 1000 + number} for number in range(10)}
    devices = settings(source="fedscale", path=capacities(tmp_path, content), model_kbit=1)
    found = devices_of(devices, 5000, 1, 2)
    # A device keeps its own link.
    assert (found.communication - found.computation == 999).all()
    counts = np.bincount(found.computation.astype(int) - 1, minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert devices_of(devices, 5000, 1, 2).computation.tolist() == found.computation.tolist()
    # However many clients there are.
    assert devices_of(devices, 70, 1, 2).computation.tolist() == found.computation[:70].tolist()
    assert devices_of(devices, 5000, 1, 3).computation.tolist() != found.computation.tolist()
    assert devices_of(devices, 5000, 2, 2).computation.tolist() != found.computation.tolist()


def test_six_clusters_with_a_long_tail() -> None:
    found = devices_of(settings(), 50_000, 0, 0)
    nearest = np.argmin(abs(np.log(found.computation[:, None] / np.array(clusters.MEDIANS))), axis=1)
    assert np.bincount(nearest) / 50_000 == pytest.approx(clusters.SHARES, abs=0.015)
    assert sum(clusters.SHARES) == pytest.approx(1)
    assert np.median(found.computation) == pytest.approx(40, rel=0.05)
    # Long: one of a hundred takes ten times the median.
    assert np.percentile(found.computation, 99) > 10 * np.median(found.computation)
    assert np.percentile(found.communication, [25, 50, 75]) == pytest.approx([2900, 6200, 14_500], rel=0.06)
    assert found.communication.min() == 1000
    few = devices_of(settings(), 7, 0, 0)
    assert few.computation.tolist() == found.computation[:7].tolist()
    assert few.communication.tolist() == found.communication[:7].tolist()


def test_a_file_of_profiles(tmp_path: Path) -> None:
    path = profiles(tmp_path, computation=np.float32([20, 30]), communication=np.float32([1000, 2000]), dl_kbps=[1, 2])
    found = devices_of(settings(source="file", path=path), 100, 0, 0)
    assert set(zip(found.computation.tolist(), found.communication.tolist(), strict=True)) == {(20, 1000), (30, 2000)}


@pytest.mark.skipif(not MEASURED.exists(), reason=f"there is no {MEASURED}; set FEDHPC_SHARED")
def test_the_measured_phones() -> None:
    found = devices_of(settings(source="file", path=MEASURED), 100_000, 0, 0)
    with h5py.File(MEASURED) as file:
        computation = file["fedscale_capacity/computation"][()]
    assert np.median(found.computation) == pytest.approx(np.median(computation), abs=3)
    assert found.computation.mean() == pytest.approx(computation.mean(), rel=0.01)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([1], "it holds no dict of devices"),
        ({}, "it holds no device"),
        ({"a": 3}, "device 'a' has no dict"),
        ({"a": {"computation": 3}}, "communication of device 'a' is None, which is no number"),
        ({"a": {"computation": "3", "communication": 1}}, "computation of device 'a' is '3', which is no number"),
        ({"a": {"computation": True, "communication": 1}}, "computation of device 'a' is True, which is no number"),
        (
            {4: {"computation": 10**400, "communication": 1}},
            "computation of device 4 is a number of many digits, which",
        ),
        ({4: {"computation": 1e308, "communication": 1}}, r"which must be above 0 \(1e-09 to 1e\+15\)"),
        (
            {4: {"computation": 3, "communication": 1e-310}},
            r"communication of device 4 is 1e-310, which must be above 0",
        ),
        ({10**5000: 1}, "device a number of many digits has no dict"),
        ({4: {"computation": 3, "communication": 0}}, "communication of device 4 is 0, which must be above 0"),
        (
            {4: {"computation": float("nan"), "communication": 1}},
            "computation of device 4 is nan, which must be above 0",
        ),
        ({4: {"computation": 3, "communication": np.float32(1)}}, "the pickle names numpy"),
    ],
)
def test_what_is_wrong_with_capacities_is_told(tmp_path: Path, content: object, told: str) -> None:
    with pytest.raises(DamagedFile, match=told):
        devices_of(settings(source="fedscale", path=capacities(tmp_path, content)), 1, 0, 0)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"computation": [1.0]}, "it has no fedscale_capacity/computation and fedscale_capacity/communication"),
        ({"computation": [1.0], "communication": [1.0, 2.0]}, r"of the shapes \(1,\) and \(2,\)"),
        ({"computation": 1.0, "communication": 1.0}, r"of the shapes \(\) and \(\)"),
        ({"computation": [[1.0]], "communication": [[1.0]]}, r"of the shapes \(1, 1\)"),
        ({"computation": [], "communication": []}, "it holds no device"),
        ({"computation": [3.0, -1.0], "communication": [1.0, 1.0]}, "computation of device 1 is -1, which must be"),
        ({"computation": [b"quick"], "communication": [b"slow"]}, "it is no HDF5 file of numbers"),
    ],
)
def test_what_is_wrong_with_profiles_is_told(tmp_path: Path, arrays: dict[str, Any], told: str) -> None:
    with pytest.raises(DamagedFile, match=told):
        devices_of(settings(source="file", path=profiles(tmp_path, **arrays)), 1, 0, 0)


def test_profiles_that_no_memory_can_hold_are_told(tmp_path: Path) -> None:
    path = tmp_path / "profiles.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("fedscale_capacity/computation", (10**15,), "f8", chunks=(1000,), compression="gzip")
    with pytest.raises(DamagedFile, match="Unable to allocate"):
        devices_of(settings(source="file", path=path), 1, 0, 0)


def test_a_damaged_file_of_profiles_is_told(tmp_path: Path) -> None:
    path = profiles(tmp_path, computation=np.ones(1000), communication=np.ones(1000))
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(DamagedFile, match="or a damaged one"):
        devices_of(settings(source="file", path=path), 1, 0, 0)
    with pytest.raises(FileNotFoundError):
        devices_of(settings(source="file", path=tmp_path / "none.h5"), 1, 0, 0)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"source": "file"}, "path"),
        ({"path": "x.h5"}, "Extra inputs"),
        ({"model_kbit": 0}, "greater than 0"),
        ({"faster_percent": 101}, "less than or equal to 100"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        settings(**keys)
