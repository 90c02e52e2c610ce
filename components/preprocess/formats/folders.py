"""Splits and classes of images by the folders that they are in."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from components.core.errors import DataError
from components.core.sources.source_listing import first_names

log = logging.getLogger(__name__)

FOLDER, PARENT = "folder", "parent"  # which folder names the class: the first below the split, or the image's own
_SPLITS = {
    "train": ("train", "training", "trainset", "trainingset"),
    "validation": ("val", "valid", "validation", "valset", "validationset"),
    "test": ("test", "testing", "testset", "testingset"),
}
SPLIT_OF_WORD = {word: split for split, words in _SPLITS.items() for word in words}
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_PICTURE_WORDS = {"images", "imgs", "image", "img", "pictures", "photos", "jpeg", "jpg", "png", "rgb"}
_EMPTY_WORDS = {"set", "data", "dataset", "images", "imgs", "image", "img", "split"}  # `training_set`, `test-images`
_COMPANION_WORD = (
    r"(masks?|seg|segmentations?|annotations?|gt|ground_?truths?|depth|normals?|edges?|matte|alpha|trimaps?|labels?"
    r"|thumb(nail)?s?|previews?)"
)
_MASKS = re.compile(rf"(?!normal$){_COMPANION_WORD}", re.IGNORECASE)  # a folder; `normal` is a class of X-rays
_COMPANION = re.compile(rf"(.+)[._ -]{_COMPANION_WORD}([_ ]?\d+)?", re.IGNORECASE)
_NUMBER = re.compile(r"\d*|[0-9a-f]{8,}|(?=.*\d)[0-9a-f]{4,}|[A-Za-z]")  # of a shard: digits, parts of hashes, a letter
_PART = re.compile(r".*(part|batch|shard|chunk)s?[ ._-]*\d+", re.IGNORECASE)
_SHARD, _SHARD_SIZES = re.compile(r"\d{4,}"), (1000, 10_000)  # as StyleGAN, FFHQ and img2dataset write them


class Place(NamedTuple):
    """Split and class of the images in a folder."""

    split: str
    class_name: str | None  # None without folders for classes
    class_folder: str  # path of the folder that names the class; empty if none does


class Layout(NamedTuple):
    places: dict[str, Place]  # by the path of a folder that has images
    split_folders: dict[str, str]  # splits by the names of the folders that stand for them
    passed_over: str  # the folders at the top that hold everything, with `/`; often empty


def words_of(name: str) -> list[str]:
    """Return the words of a name in lower case: letters, apart at others and where capitals begin."""
    return [word.lower() for word in _WORD.findall(name)]


def split_of(*names: str) -> str:
    """Return the split that occurs as a word in the first name that has one, the last such word; else `train`."""
    words = [word for name in reversed(names) for word in words_of(name)]
    return next((SPLIT_OF_WORD[word] for word in reversed(words) if word in SPLIT_OF_WORD), "train")


def is_split(name: str) -> bool:
    """Return whether a name is that of a split and nothing else, such as `Training` or `test_set`."""
    words = set(words_of(name)) - _EMPTY_WORDS
    return len(words) == 1 and words <= SPLIT_OF_WORD.keys()


def lay_out(location: str, folders: Collection[str], named_by: str = FOLDER) -> Layout:
    """Find the splits and classes that folders with images stand for, by their paths within the source.

    Folders at the top that hold everything are passed over, and those that hold all of each split. `DataError` if some
    folders are splits and others beside them are not.
    """
    parts_of = {folder: folder.split("/") if folder else [] for folder in folders}
    passed_over = ""
    while (top := _only(parts_of.values())) and not is_split(top):
        passed_over += f"{top}/"
        parts_of = {folder: parts[1:] for folder, parts in parts_of.items()}
    split_folders, level = _find_splits(location, [*parts_of.values()])
    split_of_folder = dict.fromkeys(parts_of, "train")
    rests = {name: " ".join(_without_split(name)) for name in split_folders}
    for folder, parts in parts_of.items() if split_folders else ():
        name = parts.pop(level)
        split_of_folder[folder] = split_folders[name]
        if len({*rests.values()}) > 1:  # a class, as in `trainA` and `trainB`
            parts.insert(level, rests[name])
    while split_folders and _one_holds_each(parts_of, split_of_folder):
        parts_of = {folder: parts[1:] for folder, parts in parts_of.items()}
    places = {}
    for folder, parts in parts_of.items():
        below = 0 if named_by == PARENT else max(0, len(parts) - 1)  # folders within the one that names the class
        class_folder = folder.rsplit("/", below)[0] if parts else ""
        name = parts[-1 - below].strip() if parts else ""
        places[folder] = Place(split_of_folder[folder], None if _holds_pictures(name) else name or None, class_folder)
    return Layout(places, split_folders, passed_over)


def are_shards(images: Iterable[tuple[str, str]]) -> bool:
    """Return whether folders hold runs of numbered images, such as `00001/img00001000.png`; from folders and names."""
    sizes = set(_SHARD_SIZES)
    for folder, name in images:
        digits = re.findall(r"\d+", name.rpartition(".")[0])
        if not (_SHARD.fullmatch(folder) and digits):
            return False
        sizes &= {size for size in sizes if int(digits[-1]) // size in (int(folder), int(folder) / size)}
    return bool(sizes)


def companions(names: Iterable[str]) -> set[str]:
    """Return and log images that belong to others, as `a_mask.png` to `a.png`, and `masks/a.png` to `images/a.png`."""
    owner_of = {name: match[1] for name in names if (match := _COMPANION.fullmatch(without_ending(name)))}
    owners = set(owner_of.values())
    present = {stem for name in names if (stem := without_ending(name)) in owners} if owners else set[str]()
    folders_of_companions = _folders_of_companions({name.rpartition("/")[0] for name in names})
    left_out = {name for name, owner in owner_of.items() if owner in present}
    if folders_of_companions:
        left_out |= {name for name in names if name.rpartition("/")[0] in folders_of_companions}
    if left_out:
        message = "left out %s images that are masks, previews or the like of others by name, such as %s; rename them "
        log.warning(message + "to use them", f"{len(left_out):,}", min(left_out))
    return left_out


def _folders_of_companions(folders: set[str]) -> set[str]:
    """Return the folders that are in one for masks or the like, such as `SegmentationClass`, beside pictures."""
    within: dict[str, set[str]] = {}  # by folder
    for parts in (folder.split("/") for folder in folders):
        for depth, part in enumerate(parts):
            within.setdefault("/".join(parts[:depth]), set()).add(part)
    named = {
        f"{above}/{name}/".removeprefix("/")
        for above, inner in within.items()
        if above in folders or any(map(_holds_pictures, inner))
        for name in inner
        if any(map(_MASKS.fullmatch, [name, *words_of(name)])) and not _holds_pictures(name)
    }
    return {folder for folder in folders if any(f"{folder}/".startswith(prefix) for prefix in named)}


def _holds_pictures(folder: str) -> bool:
    """Return whether the name of a folder says that it holds pictures, and nothing else."""
    return bool(words := words_of(folder)) and _PICTURE_WORDS.issuperset(words)


def warn_of_doubts(classes: list[str], layout: Layout) -> None:
    """Warn where the folders that name classes may be something else."""
    if masks := [name for name in classes if _MASKS.fullmatch(name)]:
        log.warning("%s is a class; if its images belong to others, leave it out by a glob", first_names(masks))
    if all(map(_PART.fullmatch, classes)):
        log.warning("%s count as classes; if they are parts of one set, pass --labels-from none", first_names(classes))
    deeper = {(place.class_name, folder.rpartition("/")[2]) for folder, place in layout.places.items()}
    times = Counter(name for _, name in deeper if not _holds_pictures(name))
    if len(repeated := sorted(name for name, count in times.items() if count > 1)) > 1:
        message = "folders %s lie in several classes; pass --labels-from parent if they are the classes, and leave out "
        log.warning(message + "other versions of the same images by a glob", first_names(repeated))


def warn_of_words(names: Iterable[str]) -> None:
    """Warn if names of images without classes begin with few words, such as `cat.1.jpg`: these may be classes."""
    words = Counter(re.sub(r"[\W\d_]+$", "", without_ending(name.rpartition("/")[2])) for name in names)
    cameras = {"", *filter(str.isupper, words)}  # such as IMG_0001
    if cameras.isdisjoint(words) and 1 < len(words) <= words.total() / 4:
        message = "names of images begin with %s, which are no classes; put images into folders of these names, or "
        log.warning(message + "name a table by --label-file", first_names(sorted(words)))


def set_of(path: str) -> str:
    """Return what the path of a file with many images says but for split and number: the name of a set."""
    tokens = re.split(r"[^A-Za-z0-9]+", path.partition(".")[0] if "/" not in path else path.rpartition(".")[0])
    said = SPLIT_OF_WORD.keys() | _EMPTY_WORDS | {"of", "part", "shard", "batch", "labels", "targets", "x", "y"}
    named = [token for token in tokens if not _NUMBER.fullmatch(token) and not said.issuperset(words_of(token))]
    return " ".join(named)


def without_ending(path: str) -> str:
    return path.rpartition(".")[0]


def _only(all_parts: Collection[list[str]]) -> str:
    """Return the first folder of all paths if it is the same; else an empty text."""
    first = {parts[0] if parts else "" for parts in all_parts}
    return first.pop() if len(first) == 1 else ""


def _one_holds_each(parts_of: dict[str, list[str]], split_of_folder: dict[str, str]) -> bool:
    """Return whether one folder holds all of each split, and names no class: it has others, or is in all splits."""
    inner = {
        split: _only([parts for folder, parts in parts_of.items() if split_of_folder[folder] == split])
        for split in set(split_of_folder.values())
    }
    return all(inner.values()) and (len({*inner.values()}) == 1 or all(len(parts) > 1 for parts in parts_of.values()))


def _find_splits(location: str, all_parts: list[list[str]]) -> tuple[dict[str, str], int]:
    """Return the splits by the names of their folders, none if there are none, and how many folders these lie below."""
    tops = {parts[0] if parts else "" for parts in all_parts}
    if named := {name for name in tops if is_split(name) or _differ_by_split(name, tops)}:
        if others := tops - named:
            shown = ", ".join(sorted(others)) if "" not in others else "images beside them"
            raise DataError(
                f"{location} has folders for splits ({', '.join(sorted(named))}) but also {shown}; move these into one "
                "of them, or leave them out by a glob (a class of such a name goes within a folder `train`)"
            )
        return {name: split_of(name) for name in tops}, 0
    second = {parts[1] if len(parts) > 1 else "" for parts in all_parts}
    return ({name: split_of(name) for name in second}, 1) if all(map(is_split, second)) else ({}, 0)


def _differ_by_split(name: str, others: Collection[str]) -> bool:
    """Return whether another name is the same but for the split, as `seg_train` and `seg_test` are."""
    rest = _without_split(name)
    has_split = not SPLIT_OF_WORD.keys().isdisjoint(words_of(name))
    same = [other for other in others if _without_split(other) == rest] if has_split else []
    return len({split_of(other) for other in same}) > 1


def _without_split(name: str) -> list[str]:
    return [word for word in words_of(name) if word not in SPLIT_OF_WORD and word not in _EMPTY_WORDS]
