"""Files of public data sets: where they are found, how they are downloaded, and that they are the right ones."""

from __future__ import annotations

import gzip
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from http.client import HTTPException
from pathlib import Path
from posixpath import normpath
from tempfile import TemporaryFile
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from mnemoscope.base.files import write_atomically
from mnemoscope.base.progress import Bar

VARIABLE = "MNEMOSCOPE_DATA"
"""Environment variable that names the folder of all data sets."""


@dataclass(frozen=True)
class Place:
    """The folder in which data sets are looked for."""

    folder: Path
    named_by: str | None
    """What named it; None for our own cache, the only folder into which files are downloaded."""

    @classmethod
    def find(cls, data: str | None) -> Place:
        """The folder `data` if given, else the one that MNEMOSCOPE_DATA names, else ~/.cache/mnemoscope.

        >>> Place.find("somewhere")
        Place(folder=PosixPath('somewhere'), named_by='the option data')
        """
        if data is not None:
            return cls(Path(data).expanduser(), "the option data")
        if named := os.environ.get(VARIABLE):
            return cls(Path(named).expanduser(), VARIABLE)
        return cls.own()

    @classmethod
    def own(cls) -> Place:
        """Our cache."""
        return cls(Path.home() / ".cache" / "mnemoscope", None)


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, to be found unpacked under its name, or gzipped under its name with `.gz`."""

    name: str
    sha256: str
    """Of its content: gzipped copies of one file differ between mirrors."""
    url: str
    member: str | None = None
    """Its path in the gzipped tar archive at `url`; None: `url` is the file itself, gzipped or not."""

    @property
    def source(self) -> str:
        """Where it can be had, in words."""
        return self.url if self.member is None else f"{self.url} ({self.member} in it)"

    def content(self, packed: IO[bytes], where: str, advice: str, member: str | None = None) -> bytes:
        """The file in `packed`, or its `member`, unpacked; raises unless it is whole and unchanged."""
        try:
            content = _unpacked(packed) if member is None else _extracted(packed, member)
        except (EOFError, zlib.error, gzip.BadGzipFile, tarfile.TarError, KeyError) as error:
            reason = str(error.args[0] if isinstance(error, KeyError) else error)
            raise ValueError(f"{where} cannot be unpacked: {reason}. Was it cut short? {advice}") from error
        found = sha256(content).hexdigest()
        if found != self.sha256:
            raise ValueError(
                f"{where} is not the original {self.name}, or was damaged: its content, {len(content):,} bytes, has "
                f"the SHA-256 {found}, but {self.sha256} was expected. {advice}"
            )
        return content


@dataclass(frozen=True)
class DataSet:
    """The files of a data set, which lie in a folder of its name."""

    name: str
    title: str
    files: tuple[DataFile, ...]

    def fetch(self, place: Place, progress: bool = True) -> None:
        """Download the files that are absent from our own cache; a folder that somebody named is left as it is."""
        if place.named_by is not None:
            return
        folder = place.folder / self.name
        absent = [file for file in self.files if _stored(file, [folder]) is None]
        names = ", ".join(file.name for file in self.files)
        sources = " and ".join(dict.fromkeys(file.url for file in self.files))
        by_hand = f"You can get it by hand, from {sources}, and name by {VARIABLE} a folder that holds {names}."
        for url in dict.fromkeys(file.url for file in absent):
            with ExitStack() as stack:
                try:
                    folder.mkdir(parents=True, exist_ok=True)
                    download = stack.enter_context(TemporaryFile(dir=folder))
                except OSError as error:
                    what = f"{folder}, where {self.title} is to be kept, cannot be written"
                    raise OSError(f"{what}: {error}. {by_hand}") from error
                _download(url, download, f"{self.title}: {url.rpartition('/')[2]}", by_hand, progress)
                for file in (each for each in absent if each.url == url):
                    download.seek(0)
                    write_atomically(
                        folder / file.name, file.content(download, f"The download of {url}", by_hand, file.member)
                    )

    def read(self, place: Place) -> Iterator[bytes]:
        """The contents of the files, in order, each checked."""
        folders = [place.folder / self.name, place.folder]
        for file in self.files:
            path = _stored(file, folders)
            if path is None:
                raise FileNotFoundError(
                    f"{self.title} needs the file {file.name}, but there is none of that name, nor {file.name}.gz, in "
                    f"{folders[0]} or {folders[1]}, where {place.named_by} says it should be. Put it there from "
                    f"{file.source}; without {place.named_by} it is downloaded to {Place.own().folder}."
                )
            again = "and it is downloaded again" if place.named_by is None else f"and take the one of {file.source}"
            with path.open("rb") as packed:
                yield file.content(packed, str(path), f"Remove it, {again}.")


def _stored(file: DataFile, folders: list[Path]) -> Path | None:
    paths = (folder / name for folder in folders for name in (file.name, f"{file.name}.gz"))
    return next((path for path in paths if path.is_file()), None)


def _unpacked(packed: IO[bytes]) -> bytes:
    content = packed.read()
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _extracted(packed: IO[bytes], member: str) -> bytes:
    with tarfile.open(fileobj=packed, mode="r:gz") as archive:
        for each in archive:
            if normpath(each.name) == member and (file := archive.extractfile(each)) is not None:
                return file.read()
    raise KeyError(f"the archive has no {member}")


def _download(url: str, to: IO[bytes], title: str, advice: str, progress: bool) -> None:
    try:
        with urlopen(Request(url, headers={"User-Agent": "mnemoscope"}), timeout=60) as response:
            size = int(response.headers.get("Content-Length", 0))
            with Bar(total=size or None, desc=title, unit="B", unit_scale=True, disable=not progress) as bar:
                while chunk := response.read(1 << 18):
                    bar.update(to.write(chunk))
        if size and to.tell() != size:
            raise OSError(f"it ended after {to.tell():,} of {size:,} bytes")
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()
        reason = error.reason if type(error) is URLError else error
        raise ConnectionError(f"{url} could not be downloaded: {reason}. {advice}") from error
