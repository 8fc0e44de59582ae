"""Files of public data sets: lookup, download and checksums."""

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
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from mnemoscope.base.files import write_atomically
from mnemoscope.base.progress import Bar

VARIABLE = "MNEMOSCOPE_DATA"
"""Environment variable with the folder of all data sets."""


@dataclass(frozen=True)
class DataFolder:
    """Folder that is searched for data sets."""

    folder: Path
    named_by: str | None
    """Setting that names the folder; None for the cache, the only folder into which files are downloaded."""

    @classmethod
    def find(cls, data: str | None) -> DataFolder:
        """Return the folder `data` if given, else the folder in MNEMOSCOPE_DATA, else the cache.

        >>> DataFolder.find("somewhere")
        DataFolder(folder=PosixPath('somewhere'), named_by='the option data')
        """
        if data is not None:
            return cls(Path(data).expanduser(), "the option data")
        if named := os.environ.get(VARIABLE):
            return cls(Path(named).expanduser(), VARIABLE)
        return cls.cache()

    @classmethod
    def cache(cls) -> DataFolder:
        """Return the cache, ~/.cache/mnemoscope."""
        return cls(Path.home() / ".cache" / "mnemoscope", None)


@dataclass(frozen=True)
class DataFile:
    """One file of a data set, stored under its name, or gzipped under its name with `.gz`."""

    name: str
    sha256: str
    """Checksum of the unpacked content, since gzipped copies differ between mirrors."""
    url: str
    member: str | None = None
    """Path in the gzipped tar archive at `url`; None if `url` is the file itself, gzipped or not."""

    @property
    def source(self) -> str:
        """Description of the download, for error messages."""
        return self.url if self.member is None else f"{self.url} ({self.member} in that archive)"

    def content(self, packed: IO[bytes], where: str, advice: str, member: str | None = None) -> bytes:
        """Return the content of `packed`, or of its `member`, unpacked; raise unless the checksum is right."""
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
    """The files of a data set, in a folder of its name."""

    name: str
    title: str
    files: tuple[DataFile, ...]

    def fetch(self, folder: DataFolder, progress: bool = True) -> None:
        """Download missing files into the cache; a folder that the user named is left unchanged."""
        if folder.named_by is not None:
            return
        target = folder.folder / self.name
        absent = [file for file in self.files if _stored(file, [target]) is None]
        names = ", ".join(file.name for file in self.files)
        sources = " and ".join(dict.fromkeys(file.url for file in self.files))
        by_hand = f"You can download it from {sources}, and set {VARIABLE} to a folder that holds {names}."
        for url in dict.fromkeys(file.url for file in absent):
            with ExitStack() as stack:
                try:
                    target.mkdir(parents=True, exist_ok=True)
                    download = stack.enter_context(TemporaryFile(dir=target))
                except OSError as error:
                    problem = f"{target}, the folder for {self.title}, cannot be written"
                    raise OSError(f"{problem}: {error}. {by_hand}") from error
                _download(url, download, f"{self.title}: {url.rpartition('/')[2]}", by_hand, progress)
                for file in (file for file in absent if file.url == url):
                    download.seek(0)
                    content = file.content(download, f"The download of {url}", by_hand, file.member)
                    write_atomically(target / file.name, content)

    def read(self, folder: DataFolder) -> Iterator[bytes]:
        """Yield the contents of the files in order, each checked."""
        folders = [folder.folder / self.name, folder.folder]
        for file in self.files:
            path = _stored(file, folders)
            if path is None:
                raise FileNotFoundError(
                    f"{self.title} needs the file {file.name}, but there is none of that name, nor {file.name}.gz, in "
                    f"{folders[0]} or {folders[1]}, where {folder.named_by} says it should be. Put it there from "
                    f"{file.source}; without {folder.named_by} it is downloaded to {DataFolder.cache().folder}."
                )
            again = "and it is downloaded again" if folder.named_by is None else f"and take the one of {file.source}"
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
        for entry in archive:
            if normpath(entry.name) == member and (file := archive.extractfile(entry)) is not None:
                return file.read()
    raise KeyError(f"the archive has no {member}")


class _HttpsRedirects(HTTPRedirectHandler):
    """Follow a redirect only to another https address."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if urlsplit(newurl).scheme != "https":
            fp.close()
            raise URLError(f"it redirects to {newurl}, and data are fetched over https only")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _download(url: str, to: IO[bytes], title: str, advice: str, progress: bool) -> None:
    try:
        if urlsplit(url).scheme not in ("https", "file"):  # a file of this machine needs no protection on the way
            raise URLError("data are fetched over https only")
        request = Request(url, headers={"User-Agent": "mnemoscope"})
        with build_opener(_HttpsRedirects).open(request, timeout=60) as response:
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
