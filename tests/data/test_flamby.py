"""FLamby's three data sets in their true layouts; the published counts are those of its READMEs."""

import gzip
import struct
from collections import Counter

import h5py
import nibabel
import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError
from torch.nn.functional import adaptive_avg_pool3d

from fedhpc.data.federated import open_prepared
from fedhpc.data.preparation import prepare
from fedhpc.data.public_settings import FLamby
from fedhpc.data.sources import load
from fedhpc.data.sources.flamby_ixi import box_means, flambys_split
from fedhpc.mistakes import ExperimentError
from fedhpc.task import Segmentation
from tests.rounds import lives_two_rounds

HOSPITALS = ["cleveland", "hungarian", "switzerland", "va"]


def _load(folder, dataset, **settings):
    source = FLamby(source="flamby", dataset=dataset, folder=folder, **settings)
    return load(source, True, (), np.random.default_rng(0), folder)


def _refused(folder, dataset, **settings):
    with pytest.raises(ExperimentError) as error:
        _load(folder, dataset, **settings)
    (sentence,) = error.value.mistakes
    assert "\n" not in sentence
    return error.value.path, sentence


# Heart disease ------------------------------------------------------------------------------------------------------


def _patient(age, pain=1, ecg=0, diagnosis=0, cholesterol=200):
    """A line of the processed files; slope, ca and thal are missing."""
    return f"{age},1,{pain},140.0,{cholesterol},0,{ecg},150,0,1.5,?,?,?,{diagnosis}\n"


@pytest.fixture
def hospitals(tmp_path):
    """Ten patients a hospital, of 40 to 49 years, of whom four are ill; and one whose cholesterol is not known."""
    lines = [_patient(40 + n, 1 + n % 4, n % 3, 3 * (n % 5 in (1, 2))) for n in range(10)]
    for hospital in HOSPITALS:
        content = "".join([*lines[:5], _patient(99, cholesterol="?"), *lines[5:], "\n"])
        (tmp_path / f"processed.{hospital}.data").write_text(content)
    return tmp_path


def test_heart_disease(hospitals):
    data = _load(hospitals, "heart_disease")
    assert (data.features.shape, data.features.dtype) == ((40, 13), np.float32)
    assert data.client_names == tuple(HOSPITALS)
    assert data.clients.tolist() == [0] * 10 + [1] * 10 + [2] * 10 + [3] * 10
    assert data.labels[:10].tolist() == [0, 1, 1, 0, 0, 0, 1, 1, 0, 0]
    # 66 % of ten are for training, rounded down, and of the four who are ill one or two are held out.
    assert [int(data.held_out[data.clients == client].sum()) for client in range(4)] == [4] * 4
    assert 1 <= data.labels[:10][data.held_out[:10]].sum() <= 2
    for client in range(4):
        own, training = data.features[client * 10 : client * 10 + 10], ~data.held_out[client * 10 : client * 10 + 10]
        n = np.arange(10)
        raw = np.stack([n, n % 4 == 1, n % 4 == 2, n % 4 == 3, n % 3 == 1, n % 3 == 2], axis=1).astype(float)
        known = raw[training]
        mean = known.sum(axis=0) / 6
        deviation = np.sqrt(((known - mean) ** 2).sum(axis=0) / 5)
        expected = np.divide(raw - mean, deviation, out=np.zeros_like(raw), where=deviation > 0)
        np.testing.assert_allclose(own[:, [0, 8, 9, 10, 11, 12]], expected, rtol=1e-5, atol=1e-6)
        # What all patients have alike tells nothing.
        assert not own[:, 1:8].any()


def test_who_is_held_out_is_not_drawn_anew(hospitals):
    first, again = (_load(hospitals, "heart_disease").held_out.tolist() for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("63,1,1\n", "line 12 has 3 cells; a patient has 14"),
        (_patient("old"), "line 12: 'old' is no number; a value that is missing is a '?'"),
        (_patient("nan"), "line 12: 'nan' is no number; a value that is missing is a '?'"),
        (_patient("inf"), "line 12: 'inf' is no number; a value that is missing is a '?'"),
        (_patient(63, diagnosis=5), "line 12: the diagnosis 5 is out of range; it is 0 to 4"),
        (_patient(63, diagnosis=0.5), "line 12: the diagnosis 0.5 is out of range; it is 0 to 4"),
        (_patient(63, pain=5), "column 3 holds 5, which is none of 1, 2, 3, 4"),
        (_patient(63, ecg=3), "column 7 holds 3, which is none of 0, 1, 2"),
        ("\xff\n", "the file cannot be read: "),
    ],
)
def test_a_bad_line_is_told_in_a_sentence(hospitals, line, sentence):
    file = hospitals / "processed.va.data"
    file.write_bytes(file.read_text().rstrip().encode() + b"\n" + line.encode("latin-1"))
    path, told = _refused(hospitals, "heart_disease")
    assert path == file
    assert told.startswith(f"task.data.folder: {sentence}")


def test_a_hospital_is_missing(hospitals):
    (hospitals / "processed.va.data").unlink()
    told = "task.data.folder: the file cannot be read: No such file or directory"
    assert _refused(hospitals, "heart_disease") == (hospitals / "processed.va.data", told)
    (hospitals / "processed.va.data").write_text(_patient(63))
    told = "task.data.folder: the file has 1 complete lines; FLamby's split takes at least 3"
    assert _refused(hospitals, "heart_disease")[1] == told


def test_a_federation_of_hospitals(hospitals):
    lives_two_rounds(hospitals, {"source": "flamby", "dataset": "heart_disease", "folder": "."})


def test_the_real_patients_are_flambys(shared_data, tmp_path):
    with h5py.File(shared_data / "heart_disease_by_hospital.h5") as file:
        x, hospital, diagnosis, complete = (file[name][()] for name in ("x", "hospital", "num", "flamby_complete"))
    for number, name in enumerate(HOSPITALS):
        rows = zip(x[hospital == number], diagnosis[hospital == number], strict=True)
        cells = [[*("?" if np.isnan(value) else f"{value:g}" for value in row), str(level)] for row, level in rows]
        (tmp_path / f"processed.{name}.data").write_text("".join(",".join(row) + "\n" for row in cells))
    data = _load(tmp_path, "heart_disease")
    assert len(data.labels) == 740
    assert (data.labels == (diagnosis > 0)[complete == 1]).all()
    pairs = Counter(zip(data.clients.tolist(), data.held_out.tolist(), strict=True))
    assert [(pairs[client, False], pairs[client, True]) for client in range(4)] == [
        (199, 104),
        (172, 89),
        (30, 16),
        (85, 45),
    ]
    known, ages = ~data.held_out[:303], x[complete == 1][:303, 0].astype(float)
    expected = (ages - ages[known].mean()) / ages[known].std(ddof=1)
    np.testing.assert_allclose(data.features[:303, 0], expected, rtol=1e-5, atol=1e-5)
    assert np.isfinite(data.features).all()


# IXI ----------------------------------------------------------------------------------------------------------------

SUBJECTS = ["IXI002-Guys-0828", "IXI012-HH-1211", "IXI013-HH-1212", "IXI035-IOP-0873", "IXI014-HH-1236"]


def _write_subject(folder, subject, scan, mask):
    for part, name, voxels in (("T1", f"{subject}-T1.nii.gz", scan), ("label", f"{subject}_mask.nii.gz", mask)):
        (folder / subject / part).mkdir(parents=True, exist_ok=True)
        nibabel.Nifti1Image(voxels, np.eye(4)).to_filename(folder / subject / part / name)


def _scan_of(number):
    """Twice the voxels of FLamby's shape along the first axis, the same along the second, half along the third."""
    return np.random.default_rng(number).integers(0, 900, size=(96, 60, 24)).astype(np.int16)


def _mask_of(number):
    mask = np.zeros((96, 60, 24), np.uint8)
    mask[10 + 2 * number : 61, 5:50, 3:20] = 1
    return mask


@pytest.fixture
def brains(tmp_path):
    """The archive's folders: subjects lie two below."""
    folder = tmp_path / "7kd5wj7v7p-3" / "IXI_sample"
    for number, subject in enumerate(SUBJECTS):
        _write_subject(folder, subject, _scan_of(number), _mask_of(number))
    (folder / "IXI.xls").write_bytes(b"\xd0\xcf")
    return tmp_path


def test_ixi(brains):
    data = _load(brains, "ixi")
    assert data.client_names == ("Guys", "HH", "IOP")
    assert data.clients.tolist() == [0, 1, 1, 1, 2]
    assert data.class_names == ("background", "brain")
    assert data.features.shape == data.labels.shape == (5, 48, 60, 48)
    assert data.labels.dtype == np.int64
    # Of three of HH two are for training, and the only one of another hospital is.
    assert [int(data.held_out[data.clients == client].sum()) for client in range(3)] == [0, 1, 0]
    for row, number in enumerate([0, 1, 2, 4, 3]):
        scan = data.features[np.array([row])][0]
        halved = _scan_of(number).astype(float).reshape(48, 2, 60, 24).mean(axis=1).repeat(2, axis=2)
        np.testing.assert_allclose(scan, (halved - halved.mean()) / halved.std(), rtol=1e-4, atol=1e-5)
        # Half a box of brain is background: the mask ends at 61, and 30 means 60 and 61.
        expected = np.zeros((48, 60, 48))
        expected[5 + number : 30, 5:50, 6:40] = 1
        np.testing.assert_array_equal(data.labels[row], expected)


def test_the_split_of_all_subjects_is_flambys():
    # From FLamby's metadata_tiny.csv: its sizes, and the held-out ones among the first of each hospital, by number.
    counts = {"Guys": 311, "HH": 181, "IOP": 74}
    held_out = flambys_split([hospital for hospital, count in counts.items() for _ in range(count)])
    own = dict(zip(counts, np.split(held_out, [311, 311 + 181]), strict=True))
    assert {hospital: int(held.sum()) for hospital, held in own.items()} == {"Guys": 62, "HH": 36, "IOP": 15}
    assert {hospital: np.flatnonzero(held)[:8].tolist() for hospital, held in own.items()} == {
        "Guys": [0, 2, 8, 11, 16, 27, 29, 33],
        "HH": [0, 3, 5, 8, 23, 27, 35, 39],
        "IOP": [2, 6, 8, 10, 11, 17, 18, 24],
    }


def test_means_over_boxes():
    # Five voxels to three: 0..1, 1..3 and 3..4; two to three: the middle one is the mean of both.
    five = np.array([1.0, 2, 4, 8, 16])
    np.testing.assert_allclose(box_means(five, (3,)), [1.5, 14 / 3, 12])
    np.testing.assert_allclose(box_means(np.array([1.0, 3]), (3,)), [1, 2, 3])
    np.testing.assert_allclose(box_means(np.outer(five, [1.0, 3]), (3, 1)), np.array([[3], [28 / 3], [24]]))


def test_means_over_boxes_are_torchs():
    # FLamby's Resize is MONAI's, by areas, which is torch's adaptive average; IXI Tiny's scans are 83 by 44 by 55.
    scan = np.random.default_rng(2).normal(size=(83, 44, 55))
    expected = adaptive_avg_pool3d(torch.from_numpy(scan)[None], (48, 60, 48))[0]
    np.testing.assert_allclose(box_means(scan, (48, 60, 48)), expected, rtol=1e-9, atol=1e-12)


def test_scans_are_prepared(brains):
    block = {"kind": "segmentation", "data": {"source": "flamby", "dataset": "ixi", "folder": "."}}
    task = Segmentation.model_validate(block | {"partition": {"kind": "by_column"}, "model": {"name": "unet3d"}})
    data = open_prepared(prepare(task, 0, brains, brains / "prepared"))
    assert data.features.shape == data.labels.shape == (4, 48, 60, 48)
    assert data.test_labels.shape == (1, 48, 60, 48)
    assert data.offsets.tolist() == [0, 1, 3, 4]
    assert data.classes == 2


def _rename(old, new):
    return lambda folder: (folder / old).rename(folder / new)


def _rewrite(scan, mask):
    return lambda folder: _write_subject(folder, SUBJECTS[0], scan, mask)


def _claims_much(content):
    head = bytearray(gzip.decompress(content))
    head[40:48] = struct.pack("<4h", 3, 30_000, 30_000, 30_000)
    return gzip.compress(head)


def _damage(part, change):
    def damaged(folder):
        (file,) = (folder / SUBJECTS[0] / part).glob("*.nii.gz")
        file.write_bytes(change(file.read_bytes()))

    return damaged


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_rename(SUBJECTS[0], "IXI002-Bart-0828"), "'Bart' is no hospital of Guys, HH, IOP"),
        (_rename(SUBJECTS[0], "IXI012-Guys-0828"), "the subject is there twice, also as "),
        (_rename(f"{SUBJECTS[0]}/T1", f"{SUBJECTS[0]}/T2"), "there are 0 files *.nii.gz; a subject has one"),
        (_rewrite(_scan_of(0), np.full((96, 60, 24), 2, np.uint8)), "the mask holds 2; a voxel is 0, or 1 where it is"),
        (_rewrite(_scan_of(0), _mask_of(0)[:90]), "the mask is 90x60x24, its scan 96x60x24"),
        (_rewrite(_scan_of(0), np.full((96, 60, 24), np.nan, np.float32)), "some voxels are NaN or infinite; fetch"),
        (_rewrite(_scan_of(0), np.zeros((96, 60), np.uint8)), "the file holds 2 dimensions; a scan has 3"),
        (_damage("label", lambda content: content[: len(content) // 2]), "the file cannot be read as NIfTI: "),
        (_damage("label", lambda content: b"\x80\x04" + content), "the file cannot be read as NIfTI: "),
        (_damage("label", lambda content: b""), "the file cannot be read as NIfTI: "),
        (
            _damage("label", _claims_much),
            "the file is too short for the 30000x30000x30000 voxels that its head tells of",
        ),
        (_damage("label", lambda content: gzip.compress(bytes(400))), "the file cannot be read as NIfTI: "),
        (
            _damage("label", lambda content: gzip.compress(gzip.decompress(content)[:-1])),
            "the file cannot be read as N",
        ),
    ],
)
def test_a_bad_subject_is_told_in_a_sentence(brains, change, sentence):
    change(brains / "7kd5wj7v7p-3" / "IXI_sample")
    assert _refused(brains, "ixi")[1].startswith(f"task.data.folder: {sentence}")


def test_a_scan_that_cannot_be_read_leaves_nothing_half_made(brains):
    _damage("T1", lambda content: content[:9000])(brains / "7kd5wj7v7p-3" / "IXI_sample")
    with pytest.raises(ExperimentError, match="the file cannot be read as NIfTI: "):
        test_scans_are_prepared(brains)
    assert not list((brains / "prepared").iterdir())


def test_no_subjects(tmp_path):
    told = "task.data.folder: the folder holds no subjects, as IXI002-Guys-0828; name the one that does"
    assert _refused(tmp_path, "ixi") == (tmp_path, told)


# ISIC 2019 ----------------------------------------------------------------------------------------------------------

TABLE = """image,MEL,NV,BCC,AK,BKL,DF,VASC,SCC,UNK,target,center,fold,fold2
ISIC_0065613,0.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1,0,train,train_0
ISIC_0032511,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0,2,train,train_2
ISIC_0063710,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,0.0,7,5,train,train_5
ISIC_0058767,0.0,0.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0,2,0,test,test_0
"""


@pytest.fixture
def lesions(tmp_path):
    """Plain grey pictures, the shorter side of which is 12; JPEG keeps one colour as it is."""
    (tmp_path / "pictures").mkdir()
    for name, grey, size in (
        ("ISIC_0065613", 0, (12, 16)),
        ("ISIC_0032511", 255, (15, 12)),
        ("ISIC_0063710", 128, (12, 12)),
        ("ISIC_0058767", 51, (20, 12)),
    ):
        Image.new("RGB", size, (grey,) * 3).save(tmp_path / "pictures" / f"{name}.jpg", quality=100)
    (tmp_path / "train_test_split").write_text(TABLE)
    return tmp_path


def _isic(folder):
    return {"folder": folder / "pictures", "split": folder / "train_test_split", "side": 8}


def test_isic(lesions):
    settings = _isic(lesions)
    data = _load(settings.pop("folder"), "isic2019", **settings)
    assert data.labels.tolist() == [1, 0, 7, 2]
    assert data.class_names == ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
    assert data.clients.tolist() == [0, 2, 5, 0]
    assert len(data.client_names) == 6
    assert data.held_out.tolist() == [False, False, False, True]
    found = data.features[np.arange(4)]
    assert (found.shape, found.dtype) == ((4, 8, 8, 3), np.float32)
    for picture, grey in zip(found, (0, 1, 128 / 255, 0.2), strict=True):
        expected = [(grey - 0.485) / 0.229, (grey - 0.456) / 0.224, (grey - 0.406) / 0.225]
        np.testing.assert_allclose(picture.reshape(-1, 3), np.tile(expected, (64, 1)), rtol=1e-5)


def test_the_middle_of_a_picture(lesions):
    # Of 12 by 16 pixels a white middle of 8 by 8 is left whole, and its frame is not.
    picture = Image.new("RGB", (12, 16))
    picture.paste((255, 255, 255), (2, 4, 10, 12))
    picture.save(lesions / "pictures" / "ISIC_0065613.jpg", format="PNG")
    settings = _isic(lesions)
    middle = _load(settings.pop("folder"), "isic2019", **settings).features[np.array([0])][0]
    np.testing.assert_allclose(middle[..., 0], np.full((8, 8), (1 - 0.485) / 0.229), rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (TABLE, "", "the file has no column 'image'; it has none"),
        (TABLE[TABLE.index("\n") + 1 :], "", "the file names no picture under its heading"),
        ("center", "centre", "the file has no column 'center'; did you mean 'centre'?; it has "),
        (",train,train_0", ",train", "line 2 has 13 cells, but line 1 names 14 columns"),
        (",1,0,train", ",8,0,train", "line 2: the target '8' is out of range; it is 0 to 7"),
        (",1,0,train", ",-1,0,train", "line 2: the target '-1' is out of range; it is 0 to 7"),
        (",1,0,train", ",1,6,train", "line 2: the center '6' is out of range; it is 0 to 5"),
        (",1,0,train", ",1,0,tune", "line 2: the fold 'tune' is neither train nor test"),
        ("ISIC_0032511", "ISIC_0065613", "line 3: 'ISIC_0065613' is there twice, first in line 2"),
        ("ISIC_0032511", "ISIC_0000000", "line 3: there is no file 'ISIC_0000000.jpg' in "),
        ("ISIC_0032511", "../pictures/ISIC_0032511", "line 3: '../pictures/ISIC_0032511.jpg' leaves the folder; it "),
        ("ISIC_0032511", "/ISIC_0032511", "line 3: '/ISIC_0032511.jpg' leaves the folder; it takes a path within "),
    ],
)
def test_a_bad_table_is_told_in_a_sentence(lesions, old, new, sentence):
    (lesions / "train_test_split").write_text(TABLE.replace(old, new, 1))
    settings = _isic(lesions)
    with pytest.raises(ExperimentError) as error:
        _load(settings.pop("folder"), "isic2019", **settings)
    assert error.value.mistakes[0].startswith(f"task.data.split: {sentence}")


def test_a_picture_that_is_too_small_leaves_nothing_half_made(lesions, opened):
    block = {"source": "flamby", "dataset": "isic2019", "folder": "pictures", "split": "train_test_split", "side": 13}
    with pytest.raises(ExperimentError) as error:
        opened(block)
    assert error.value.mistakes == ["task.data.side: the picture is 12 by 16; lower side to 12"]
    assert not list((lesions / "prepared").iterdir())


def test_a_federation_of_centres(lesions):
    block = {"source": "flamby", "dataset": "isic2019", "folder": "pictures", "split": "train_test_split", "side": 8}
    lives_two_rounds(lesions, block)


def test_a_split_goes_with_isic():
    with pytest.raises(
        ValidationError, match="split: goes with dataset isic2019, its table of centres and folds; name"
    ):
        FLamby(source="flamby", dataset="ixi", folder="ixi", split="metadata_tiny.csv")
