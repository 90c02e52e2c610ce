"""Small twins of public collections and of what people report: the same names and formats, with drawn pictures.

The brightness of a picture says its class, so that labels which are mixed up are noticed.
"""

import dataclasses
import functools
import io
import json
import pickle
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from PIL import Image

from components.core.data import tfrecord
from components.preprocess.formats.labels import BY_NAME, LabelChoice
from tests.inputs.formats import mat, npy, npz, parquet, tarred, zipped
from tests.inputs.sources import framed, idx

CLASSES = ("cat", "dog")
Files = dict[str, bytes]  # by their paths


def level(kind: int) -> int:
    """Return the brightness of the pictures of a class."""
    return 40 + 100 * kind


@functools.cache
def pixels(kind: int, number: int, height: int = 12, width: int = 12) -> np.ndarray:
    """Return a gray picture of a class, uint8 [height, width]; its first pixel is dark in all."""
    noise = np.random.default_rng([kind, number]).integers(-8, 9, (height, width))
    image = (level(kind) + noise).astype(np.uint8)
    image[0, 0] = 0
    return image


def image(kind: int, number: int, form: str = "PNG", height: int = 12, width: int = 12) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels(kind, number, height, width)).convert("RGB").save(content, form)
    return content.getvalue()


def images(name: str, count: int = 8, classes: Iterable[str] = CLASSES, form: str = "PNG") -> Files:
    """Return pictures of each class by a pattern of names with `{name}` and `{number}`; numbers go through all."""
    kinds = [*enumerate(classes)]
    return {
        name.format(name=class_name, kind=kind, number=number * len(kinds) + kind): image(kind, number, form)
        for number in range(count // len(kinds))
        for kind, class_name in kinds
    }


def arrays(count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return gray pictures uint8 [count, 12, 12], and their classes."""
    kinds = np.arange(count) % 2
    return np.stack([pixels(int(kind), number) for number, kind in enumerate(kinds)]), kinds


def photos(**columns: list[Any]) -> Files:
    """Return a Parquet file of pictures whose classes take turns, with further columns."""
    count = len(next(iter(columns.values())))
    return {"x.parquet": parquet(image=[image(number % 2, number) for number in range(count)], **columns)}


def table(
    names: Iterable[str], header: str = "", row: str = "{name},{label}", labels: Iterable[object] = CLASSES
) -> bytes:
    """Return a table with a row for each name, whose labels take turns."""
    turns = [*labels]
    rows = [row.format(name=name, label=turns[number % len(turns)]) for number, name in enumerate(names)]
    return "\n".join([*([header] if header else []), *rows, ""]).encode()


def examples(field: str, labels: Iterable[object], count: int = 8) -> bytes:
    """Return a TFRecord file of pictures whose labels take turns."""
    turns = [*labels]
    records = []
    for number in range(count):
        example, label = tfrecord.Example(), turns[number % len(turns)]
        example.features.feature["image"].bytes_list.value.append(image(number % 2, number))
        example.features.feature["id"].bytes_list.value.append(b"x")
        feature = example.features.feature[field]
        values = feature.bytes_list if isinstance(label, bytes) else feature.int64_list
        values.value.append(label)
        records.append(example.SerializeToString())
    return framed(*records)


def cifar(count: int, labels: str) -> bytes:
    """Return a batch as CIFAR has it: planes of red, green and blue."""
    kinds = np.arange(count) % 2
    data = np.stack([np.tile(pixels(int(kind), n, 32, 32).ravel(), 3) for n, kind in enumerate(kinds)])
    return pickle.dumps({b"data": data, labels.encode(): kinds.tolist(), b"batch_label": b"x"}, protocol=2)


@dataclasses.dataclass(frozen=True)
class Collection:
    files: Callable[[], Files]
    classes: tuple[str, ...] = CLASSES  # by number, of the pictures of each level; empty for none
    counts: tuple[int, ...] = (8,)  # to train on, for validation, for tests
    choice: LabelChoice = BY_NAME
    refused: str = ""  # what the error says, if it is refused
    said: str = ""  # what a warning says


_NAMES = [f"{number:06}.jpg" for number in range(8)]
_X, _Y = arrays()
_IDX = idx(_X), idx(_Y.astype(np.uint8))
_CELEBA = images("img_align_celeba/img_align_celeba/{number:06}.jpg", form="JPEG")
_MINUS = ("1", "-1")
_CELEBA_TABLE = {
    **_CELEBA,
    "list_attr_celeba.csv": table(_NAMES, "image_id,Young,Smiling", "{name},1,{label}", _MINUS),
}
_NUMBERED, _PNGS = images("{number}.png"), [f"{number}.png" for number in range(8)]
_CHEST = {"chestmnist.npz": npz(train_images=_X, train_labels=np.zeros((8, 14), np.uint8))}
_COUNTS = {"train": 8, "val": 4, "test": 2}
_PETS = images("{name}/{number}.png")
_NFC, _NFD = (unicodedata.normalize(form, "caf\u00e9") for form in ("NFC", "NFD"))


def _splits(train: str, test: str) -> Files:
    return images(train + "/{name}/{number}.png", 6) | images(test + "/{name}/{number}.png", 2)


def _emnist() -> Files:
    turned = idx(_X.transpose(0, 2, 1))
    return {
        "emnist-letters-train-images-idx3-ubyte": turned,
        "emnist-letters-train-labels-idx1-ubyte": idx((_Y + 1).astype(np.uint8)),
    }


def _zip(name: str, encoded: bytes) -> Files:
    """Return a zip file with a class whose name is encoded, into as many bytes as this name has."""
    return {"a.zip": zipped(images("{name}/{number}.png", classes=("ant", name))).replace(name.encode(), encoded)}


def _samples(name: str, *ends: str) -> Files:
    """Return a shard of WebDataset: for each sample pictures by their endings, and a file with the class."""
    files = {
        f"{name}{n}.{end}": b"%d" % (n % 2) if end == "cls" else image(n % 2, n)
        for n in range(8)
        for end in (*ends, "cls")
    }
    return {"train-000.tar": tarred(files)}


def _pixel_table(pictures: np.ndarray, header: str = "") -> bytes:
    return table((",".join(map(str, picture.ravel())) for picture in pictures), header, "{label},{name}", (0, 1))


COLLECTIONS: dict[str, Collection] = {
    # Splits by folders.
    **{
        f"{train} and {test}": Collection(functools.partial(_splits, train, test), counts=(6, 0, 2))
        for train, test in (
            ("Training", "Testing"),
            ("TRAIN", "TEST"),
            ("training_set", "test_set"),
            ("train2017", "test2017"),
            ("seg_train/seg_train", "seg_test/seg_test"),
            ("EuroSAT/train-images", "EuroSAT/test-images"),
        )
    },
    "classes above splits": Collection(
        lambda: images("{name}/train/good/{number}.png", 6) | images("{name}/test/bad/{number}.png", 2),
        counts=(6, 0, 2),
        said="folders bad, good lie in several classes",
    ),
    "valid and val": Collection(
        lambda: _splits("train", "valid") | images("val/{name}/v{number}.png", 2), counts=(6, 4)
    ),
    "Intel's scenes": Collection(
        lambda: _splits("seg_train/seg_train", "seg_test/seg_test") | {"seg_pred/1.png": image(0, 0)},
        refused="splits (seg_test, seg_train) but also seg_pred; move these into one of them, or leave them",
    ),
    # Folders that hold everything.
    "EuroSAT": Collection(lambda: images("2750/{name}/{name}_{number}.jpg", form="JPEG")),
    "EuroSAT, packed": Collection(lambda: {"EuroSAT_RGB.zip": zipped(images("2750/{name}/{name}_{number}.jpg"))}),
    "AnimeFace": Collection(
        lambda: {**images("animeface/thumb/{name}/face_{number}_45_67.png"), "animeface/thumb/cat/color.csv": b"1,2\n"},
        said="color.csv are not read; if one has them, name it by --label-file",
    ),
    "FFHQ": Collection(lambda: {f"{n // 4 * 1000:05}/{n // 4 * 1000 + n:05}.png": image(0, n) for n in range(8)}, ()),
    "StyleGAN's folders": Collection(
        lambda: {f"0000{n % 2}/img0000{n % 2}00{n}.png": image(0, n) for n in range(8)}, ()
    ),
    "GTSRB": Collection(lambda: images("0000{kind}/00000_0000{number}.png"), ("00000", "00001")),
    "parents": Collection(
        lambda: images("{kind}/{name}/{number}.png") | {"1/fox/x.png": image(2, 0)},
        ("cat", "dog", "fox"),
        (9,),
        LabelChoice("parent"),
    ),
    "a column of no table": Collection(
        lambda: _PETS, choice=LabelChoice(column="breed"), refused="label_column breed needs a file of labels in"
    ),
    "no labels asked for": Collection(lambda: _PETS, (), choice=LabelChoice("none")),
    # Files of labels.
    "CelebA": Collection(
        lambda: {**_CELEBA, "list_attr_celeba.txt": table(_NAMES, "8\nYoung Smiling ", "{name}  1 {label:>2}", _MINUS)},
        ("Smiling", "not Smiling"),
        choice=LabelChoice(column="Smiling", file="list_attr_celeba.txt"),
    ),
    "CelebA of Kaggle": Collection(
        lambda: _CELEBA_TABLE,
        ("Smiling", "not Smiling"),
        choice=LabelChoice(column="Smiling", file="list_attr_celeba.csv"),
    ),
    "CelebA without an attribute": Collection(
        lambda: _CELEBA_TABLE,
        choice=LabelChoice(file="list_attr_celeba.csv"),
        refused="has the columns image_id, Young, Smiling; say by --label-column which has the labels",
    ),
    "CelebA without a word on labels": Collection(
        lambda: {**_CELEBA, "list_attr_celeba.txt": b"8\nYoung\n"}, (), said="name it by --label-file"
    ),
    "CIFAR-10 of Kaggle": Collection(
        lambda: {**images("train/{number}.png"), "trainLabels.csv": table(map(str, range(8)), "id,label")},
        choice=LabelChoice(file="trainLabels.csv"),
    ),
    "MedMNIST, saved": Collection(
        lambda: {
            **images("pathmnist/train{number}_0.png"),
            "pathmnist.csv": table((f"train{n}_0.png" for n in range(8)), row="TRAIN,{name},{label}", labels=(0, 1)),
        },
        ("0", "1"),
        choice=LabelChoice(file="pathmnist.csv"),
    ),
    "Flowers": Collection(
        lambda: {**images("jpg/image_0000{number}.jpg", form="JPEG"), "imagelabels.mat": mat(labels=_Y[None] + 1)},
        ("1", "2"),
        choice=LabelChoice(file="imagelabels.mat"),
    ),
    "spaces in labels.csv": Collection(
        lambda: {**_NUMBERED, "labels.csv": table(_PNGS, "file, label", "{name} , {label} ")}
    ),
    "metadata.csv with class": Collection(lambda: {**_NUMBERED, "metadata.csv": table(_PNGS, "file_name, class")}),
    "metadata.jsonl with a gap": Collection(
        lambda: {
            **_NUMBERED,
            "metadata.jsonl": table(_PNGS[:7], row='{{"file_name": "{name}", "label": "{label}"}}')
            + b'{"file_name": "7.png"}\n',
        },
        refused="has images with a label (0.png) and without one (7.png)",
    ),
    "metadata.csv with another column": Collection(
        lambda: {**_NUMBERED, "metadata.csv": table(_PNGS, "file_name,breed_id")},
        (),
        said="no labels of metadata.csv are read; if one of breed_id has them",
    ),
    # Text.
    "names of a Mac": Collection(
        lambda: {f"{_NFD}/a.png": image(0, 0), f"{_NFC}/b.png": image(0, 1), "tea/c.png": image(1, 0)},
        ("caf\u00e9", "tea"),
        (3,),
    ),
    "names that collide": Collection(
        lambda: {f"{_NFD}/a.png": image(0, 0), f"{_NFC}/a.png": image(0, 1)},
        refused="whose names are both written caf\u00e9/a.png",
    ),
    "classes that differ by capital letters": Collection(
        lambda: images("{name}/{number}.png", classes=("Cat", "cat")),
        ("Cat", "cat"),
        said="classes differ by capital letters alone: Cat and cat",
    ),
    "names of a Mac in labels.csv": Collection(
        lambda: {
            **{f"{_NFD}{n}.png": image(n % 2, n) for n in range(8)},
            "labels.csv": table((f"{_NFC}{n}.png" for n in range(8)), "file,label"),
        }
    ),
    "UTF-8 in a zip": Collection(lambda: _zip("cafXX", "caf\u00e9".encode()), ("ant", "caf\u00e9")),
    "GBK in a zip": Collection(lambda: _zip("XXXX", "\u732b\u72d7".encode("gbk")), ("ant", "\u00e8\\xb9\\xb7")),
    "ISIC's columns of classes": Collection(
        lambda: {
            **_NUMBERED,
            "isic.csv": table(map(str, range(8)), "image,cat,dog", "{name},{label}", ("1.0,0.0", "0.0,1.0")),
        },
        choice=LabelChoice("auto", "", "isic.csv"),
    ),
    "a file of labels in each split": Collection(
        lambda: {
            f"{split}/{name}": content
            for split, count in (("train", 6), ("valid", 2))
            for name, content in {
                **images("{number}.png", count),
                "_classes.csv": table(
                    (f"{n}.png" for n in range(count)), "filename, cat, dog", "{name}, {label}", ("1, 0", "0, 1")
                ),
            }.items()
        },
        counts=(6, 2),
        choice=LabelChoice("auto", "", "_classes.csv"),
    ),
    "several classes of an image": Collection(
        lambda: {**_NUMBERED, "t.csv": table(_PNGS, "file,cat,dog", "{name},{label}", ("1,0", "1,1"))},
        choice=LabelChoice("auto", "", "t.csv"),
        refused="t.csv, line 3 has no single label: 2 of its columns are 1 (cat, dog); choose one column by",
    ),
    # Samples and arrays.
    "WebDataset with dots": Collection(lambda: _samples("22.", "png"), ("0", "1")),
    "masks": Collection(
        lambda: images("{name}/a ({number}).png") | images("{name}/a ({number})_mask.png"),
        said="left out 8 images that are masks",
    ),
    "pets beside trimaps": Collection(
        lambda: images("pets/images/a_{number}.jpg", form="JPEG") | images("pets/annotations/trimaps/a_{number}.png"),
        (),
        said="left out 8 images that are masks",
    ),
    "VOC": Collection(
        lambda: {
            **images("VOC2012/JPEGImages/{name}/{number}.jpg", form="JPEG"),
            **images("VOC2012/SegmentationClass/{number}.png"),
        },
        said="left out 8 images that are masks",
    ),
    "chest X-rays": Collection(
        lambda: images("xray/{name}/{number}.jpeg", classes=("NORMAL", "PNEUMONIA"), form="JPEG"),
        ("NORMAL", "PNEUMONIA"),
    ),
    "PlantVillage": Collection(
        lambda: {
            f"plants/{form}/{name}/{n}.png": image(kind, 2 * n + (name == "rust"))
            for kind, form in enumerate(("color", "gray"))
            for name in ("mold", "rust")
            for n in range(2)
        },
        ("color", "gray"),
        said="folders mold, rust lie in several classes; pass --labels-from parent if they are the classes",
    ),
    "HAM10000": Collection(
        lambda: images("images_part_{kind}/ISIC_{number}.png"),
        ("images_part_0", "images_part_1"),
        said="images_part_0, images_part_1 count as classes; if they are parts of one set, pass --labels-from none",
    ),
    "Tiny ImageNet": Collection(
        lambda: images("tiny/train/{name}/images/{number}.png") | images("tiny/val/images/{number}.png"),
        refused="without one (tiny/val/images/0.png); give one to all (images beside class folders have none), leave",
    ),
    "WebDataset with masks": Collection(
        lambda: _samples("", "jpg", "seg.png"), ("0", "1"), said="left out 8 images that are masks"
    ),
    "Petals": Collection(lambda: {"00-12x12-8.tfrec": examples("class", (0, 1))}, ("0", "1")),
    "TFRecord without the first label": Collection(
        lambda: {"x.tfrecord": examples("id2", (0,), 1) + examples("label", (0, 1))},
        refused="without one (x.tfrecord[0])",
    ),
    "NPY without labels": Collection(
        lambda: {f"{name}.npy": npy(_X[kind == _Y]) for kind, name in enumerate(CLASSES)},
        (),
        choice=LabelChoice("none"),
    ),
    "TFRecord with names": Collection(lambda: {"x.tfrecord": examples("image/class/text", (b"cat", b"dog"))}),
    "TFRecord with another feature": Collection(
        lambda: {"x.tfrecord": examples("category", (0, 1))},
        (),
        said="no labels of x.tfrecord are read; if one of category, id has them",
    ),
    "TFRecord with another feature, named": Collection(
        lambda: {"x.tfrecord": examples("category", (0, 1))}, ("0", "1"), choice=LabelChoice(column="category")
    ),
    "NPZ of scikit-learn": Collection(lambda: {"faces.npz": npz(data=_X, target=_Y)}, ("0", "1")),
    "NPZ with text": Collection(lambda: {"faces.npz": npz(images=_X, labels=np.array(CLASSES * 4))}),
    "Kuzushiji-MNIST": Collection(
        lambda: {
            "kmnist-train-imgs.npz": npz(arr_0=_X),
            "kmnist-train-labels.npz": npz(arr_0=_Y),
            "kmnist-test-imgs.npz": npz(arr_0=_X[:2]),
            "kmnist-test-labels.npz": npz(arr_0=_Y[:2]),
        },
        ("0", "1"),
        (8, 0, 2),
    ),
    "MedMNIST": Collection(
        lambda: {
            "pathmnist.npz": npz(
                **{f"{split}_images": _X[:count] for split, count in _COUNTS.items()},
                **{f"{split}_labels": _Y[:count, None] for split, count in _COUNTS.items()},
                montage=_X[0],
            )
        },
        ("0", "1"),
        (8, 4, 2),
    ),
    "two of MedMNIST": Collection(
        lambda: {f"{name}.npz": npz(train_images=_X, train_labels=_Y[:, None]) for name in ("pathmnist", "bloodmnist")},
        refused="holds several sets by the names of files, such as bloodmnist.npz and pathmnist.npz; name one of them",
    ),
    "ChestMNIST": Collection(
        lambda: _CHEST,
        refused="expected 8 labels, one for each image; choose others by --label-column or --labels-from",
    ),
    "ChestMNIST without labels": Collection(lambda: _CHEST, (), choice=LabelChoice("none")),
    "MedMNIST in 3D": Collection(
        lambda: {"organmnist3d.npz": npz(train_images=np.zeros((8, 12, 12, 12), np.uint8))},
        refused="with 1, 3 or 4 channels, last",
    ),
    "arrays with the number last": Collection(
        lambda: {
            "d.npz": npz(images=np.ascontiguousarray(np.stack([pixels(0, n, 16, 20) for n in range(400)], axis=-1)))
        },
        (),
        (16,),
        said="d.npz[images] has 16 images of 20x400x1; arrays are [n, height, width]",
    ),
    # Parquet.
    "CIFAR-100 of the Hub": Collection(
        lambda: {
            "data/train-00000-of-00001-0a1b2c3d.parquet": parquet(
                img=[image(n % 2, n) for n in range(8)], fine_label=[*_Y.tolist()], coarse_label=[0] * 8
            )
        },
        ("0", "1"),
    ),
    "Parquet with truth values": Collection(lambda: photos(label=[n % 2 == 1 for n in range(8)]), ("false", "true")),
    "Parquet with several labels": Collection(
        lambda: photos(labels=[[0, 1]] * 8),
        refused="has label [0, 1], expected text or a whole number for each image; choose another field by",
    ),
    "Parquet with a breed": Collection(
        lambda: photos(breed=[*CLASSES] * 4),
        (),
        said="no labels of x.parquet are read; if one of breed has them",
    ),
    "previews beside Parquet": Collection(
        lambda: {"assets/a.png": image(0, 0), **photos(label=[0, 1] * 100)},
        ("0", "1"),
        (200,),
        said="Parquet files, which are read, and PNG, JPEG or WebP images, which are not",
    ),
    "previews beside an archive": Collection(
        lambda: {"assets/a.png": image(0, 0), "train.zip": zipped(images("{name}/{number}.png", 200))},
        counts=(200,),
        said="which are not; name one",
    ),
    # IDX and others.
    "EMNIST": Collection(_emnist, ("1", "2"), said="its images are turned"),
    "two of EMNIST": Collection(
        lambda: _emnist() | {name.replace("letters", "digits"): content for name, content in _emnist().items()},
        refused="for train; keep one of them",
    ),
    "MNIST of Kaggle": Collection(
        lambda: {
            "train-images-idx3-ubyte/train-images-idx3-ubyte": _IDX[0],
            "train-labels-idx1-ubyte/train-labels-idx1-ubyte": _IDX[1],
        },
        ("0", "1"),
    ),
    "pictures with the names of IDX": Collection(lambda: images("images_idx_{number}.png"), ()),
    "Quick, Draw!": Collection(
        lambda: {f"{name}.npy": npy(_X[kind == _Y].reshape(4, 144)) for kind, name in enumerate(CLASSES)}
    ),
    "x_train.npy": Collection(lambda: {"x_train.npy": npy(_X), "y_train.npy": npy(_Y)}, ("0", "1")),
    "CIFAR-10": Collection(
        lambda: {
            "cifar-10-python.tar": tarred(
                {
                    "cifar-10-batches-py/data_batch_1": cifar(8, "labels"),
                    "cifar-10-batches-py/test_batch": cifar(2, "labels"),
                    "cifar-10-batches-py/batches.meta": pickle.dumps({b"label_names": [b"cat", b"dog"]}, protocol=2),
                },
            )
        },
        counts=(8, 0, 2),
    ),
    "CIFAR-100, unpacked": Collection(
        lambda: {
            "cifar-100-python/train": cifar(8, "fine_labels"),
            "cifar-100-python/test": cifar(2, "fine_labels"),
            "cifar-100-python/meta": pickle.dumps({b"fine_label_names": [b"cat", b"dog"]}, protocol=2),
        },
        counts=(8, 0, 2),
    ),
    "a pickle that runs a program": Collection(
        lambda: {"cifar-10-batches-py/data_batch_1": pickle.dumps(print)}, refused="a pickle holds builtins.print"
    ),
    "SVHN": Collection(
        lambda: {
            f"{split}_32x32.mat": mat(X=np.stack([_X[:count].transpose(1, 2, 0)] * 3, 2), y=_Y[:count, None] + 1)
            for split, count in _COUNTS.items()
            if split != "val"
        },
        ("1", "2"),
        (8, 0, 2),
    ),
    "MATLAB 7.3": Collection(
        lambda: {"x.mat": b"\x89HDF\r\n\x1a\n" + bytes(500)}, refused="version 7.3; save it by `save -v7`"
    ),
    "MNIST as CSV": Collection(
        lambda: {"train.csv": _pixel_table(_X, "label," + ",".join(f"pixel{n}" for n in range(144)))}, ("0", "1")
    ),
    "EMNIST as CSV": Collection(lambda: {"emnist-balanced-train.csv": _pixel_table(_X.transpose(0, 2, 1))}, ("0", "1")),
    "a table without pixels": Collection(
        lambda: {"train.csv": b"id,breed\n1,cat\n"},
        refused="no single array of images, but id, breed; save images as PNG files",
    ),
    "lmdb": Collection(lambda: {"data.mdb": b"x"}, refused="save images as PNG files or arrays as NPZ first"),
    "dogs and cats by name": Collection(
        lambda: images("train/{name}.{number}.jpg", form="JPEG"),
        (),
        said="names of images begin with cat, dog, which are no classes; put images into folders of these names",
    ),
    "numbers beside words": Collection(
        lambda: {**images("{number}.jpg", 6, form="JPEG"), "bad_a.jpg": image(0, 8), "bad_b.jpg": image(0, 9)}, ()
    ),
    "photos of two cameras": Collection(lambda: images("{name}_{number}.png", classes=("DSC", "IMG")), ()),
    "thumbnails": Collection(
        lambda: images("{name}/{number}.png") | images("{name}/thumbnails/{number}.png"),
        said="left out 8 images that are masks, previews or the like",
    ),
    **{
        f"labels as {name} of JSON": Collection(
            functools.partial(lambda content: {**_NUMBERED, "l.json": json.dumps(content).encode()}, content),
            choice=LabelChoice(file="l.json"),
        )
        for name, content in (
            ("an object", dict(zip(_PNGS, 4 * CLASSES, strict=True))),
            ("a list", [{"image": path, "label": name} for path, name in zip(_PNGS, 4 * CLASSES, strict=True)]),
        )
    },
    "a table of Windows": Collection(
        lambda: {
            **images("images/{number}.png"),
            "labels.csv": table(_PNGS, "file;label", "images\\{name};{label}").decode().encode("utf-16"),
        }
    ),
    "a table in an old encoding": Collection(
        lambda: {**_NUMBERED, "labels.csv": b"file,label\n0.png,caf\xe9\n"}, refused="save it as CSV UTF-8"
    ),
    "arrays without names": Collection(
        lambda: {"data.npz": npz(arr_0=_X, arr_1=_Y)},
        refused="no array of images by name (data.npz[arr_0], data.npz[arr_1])",
    ),
    "a column for each class in NPZ": Collection(
        lambda: {"x.npz": npz(x=_X, y=np.eye(2)[_Y])}, refused="of a column for each class save argmax(axis=1)"
    ),
    "GIF": Collection(lambda: {"a.gif": b"GIF89a"}, refused="save the pictures as PNG first"),
    "JFIF": Collection(lambda: images("{name}/{number}.jfif", form="JPEG")),
    "bitmaps beside photos": Collection(
        lambda: {**_PETS, "cat/a.bmp": b"BM"}, said="by name: cat/a.bmp; save the pictures as PNG first"
    ),
    "pictures without endings": Collection(
        lambda: images("{name}/{number}"), refused="; cat/0 is a picture: give such files an ending"
    ),
    "datasets, saved to a disk": Collection(
        lambda: {"data-00000-of-00001.arrow": b""}, refused="save the table as Parquet"
    ),
    "dogs and cats, packed twice": Collection(
        lambda: {"a.zip": zipped({"train.zip": zipped(_PETS)})}, refused="files in them; unpack archives first"
    ),
    "Parquet of pixels": Collection(
        lambda: {"x.parquet": parquet(image=[[1, 2], [3, 4]])}, refused="save lists of pixels as an NPZ file"
    ),
    "NPZ of objects": Collection(
        lambda: {"x.npz": npz(x=_X, y=_Y.astype(object))}, refused="x.npz[y] is pickled, and nothing is unpickled"
    ),
}
