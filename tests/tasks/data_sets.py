"""Tiny data sets in the format of the real ones, with matching checksums."""

import gzip
import io
import tarfile
from dataclasses import replace
from hashlib import sha256

import numpy as np

from mnemoscope.tasks.data_files import DataSet
from mnemoscope.tasks.mnist import MNIST
from mnemoscope.tasks.penn_treebank import PTB, VOCABULARY


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4) for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def digits(train: int = 60, test: int = 10) -> list[bytes]:
    """Return images with their number in the first pixel, 25 times their digit in the second, and noise elsewhere."""
    random, contents = np.random.RandomState(0), []
    for number in (train, test):
        images, labels = random.randint(0, 256, (number, 784)), random.permutation(number) % 10
        images[:, 0], images[:, 1] = np.arange(number), labels * 25
        contents += [idx(images.reshape(-1, 28, 28)), idx(labels)]
    return contents


def texts(sizes: tuple[int, ...] = (2000, 300, 240)) -> list[bytes]:
    """Return random walks through the vocabulary, in steps of one or two, in the format of Mikolov's files."""
    random, contents = np.random.RandomState(0), []
    for size in sizes:
        walk = (random.randint(1, 3, size).cumsum()) % 50
        contents.append(" ".join(VOCABULARY[each] for each in walk).encode() + b" ")
    return contents


def stand_in(data_set: DataSet, contents: list[bytes], urls: list[str] | None = None) -> DataSet:
    """Return the data set with other contents."""
    urls = [file.url for file in data_set.files] if urls is None else urls
    return replace(
        data_set,
        files=tuple(
            replace(file, sha256=sha256(content).hexdigest(), url=url)
            for file, content, url in zip(data_set.files, contents, urls, strict=True)
        ),
    )


def fill(folder, data_set: DataSet, contents: list[bytes], zipped: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in zip(data_set.files, contents, strict=True):
        if zipped:
            (folder / f"{file.name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / file.name).write_bytes(content)


def archive(contents: list[bytes]) -> bytes:
    """Return an archive like simple-examples.tgz: names start with `./`, and there are other files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        members = zip((file.member for file in PTB.files), contents, strict=False)
        for name, content in [("simple-examples/README", b"hello"), *members]:
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def use(monkeypatch, folder) -> None:
    """Make the tasks use tiny data sets in `folder`, through MNEMOSCOPE_DATA."""
    from mnemoscope.tasks import PennTreebank, SequentialMNIST

    for task, data_set, contents in ((SequentialMNIST, MNIST, digits()), (PennTreebank, PTB, texts())):
        fill(folder / data_set.name, data_set, contents)
        monkeypatch.setattr(task, "data_set", stand_in(data_set, contents))
    monkeypatch.setenv("MNEMOSCOPE_DATA", str(folder))
