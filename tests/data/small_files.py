"""Small files in the layouts in which people keep image data."""

import gzip
import pickle
import struct

import numpy as np
from PIL import Image
from scipy.io import savemat


def images(seed, *shape):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def idx(array):
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder, compressed=False, num=(30, 20)):
    """The four files of MNIST, with images of 4 x 3; returns the arrays by file."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays = {}
    for part, n in zip(("train", "t10k"), num, strict=True):
        arrays[f"{part}-images-idx3-ubyte"] = images(n, n, 4, 3)
        arrays[f"{part}-labels-idx1-ubyte"] = (np.arange(n) % 10).astype(np.uint8)
    for name, array in arrays.items():
        file, data = folder / f"{name}{'.gz' if compressed else ''}", idx(array)
        file.write_bytes(gzip.compress(data) if compressed else data)
    return arrays


def write_cifar(folder, protocol=2):
    """Six batches of 10 images each, pickled as CIFAR-10's are; returns the images of training and of test."""
    folder.mkdir(parents=True)
    batches = []
    for k, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        pixels = images(k, 10, 3072)
        batch = {b"batch_label": name.encode(), b"labels": list(range(10)), b"data": pixels, b"filenames": [b"a.png"]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=protocol))
        batches.append(pixels.reshape(10, 3, 32, 32))
    return np.concatenate(batches[:5]), batches[5]


def write_svhn(folder):
    """Two .mat files; the label 10 is the digit 0."""
    folder.mkdir(parents=True)
    out = {}
    for part, num in (("train", 12), ("test", 11)):
        out[part] = images(num, 32, 32, 3, num)
        savemat(
            folder / f"{part}_32x32.mat", {"X": out[part], "y": (np.arange(num) % 10 + 1)[:, None].astype(np.uint8)}
        )
    return out


def write_folders(folder, test="test", size=(5, 4), mode="RGB"):
    """train/CLASS and test/CLASS of three cats and two dogs each; returns the images by path."""
    out = {}
    for part in ("train", test):
        for kind, num in (("cat", 3), ("dog", 2)):
            (folder / part / kind).mkdir(parents=True)
            for k in range(num):
                path = folder / part / kind / f"{k}.png"
                pixels = images(len(out), *size, *((3,) if mode == "RGB" else ()))
                Image.fromarray(pixels).save(path)
                out[path] = pixels
    return out
