"""Data files: lookup, download and checksums."""

import gzip
import os
import re
import threading
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import HTTPSHandler

import pytest

from mnemoscope.cli import main
from mnemoscope.tasks import PennTreebank, PermutedMNIST, SequentialMNIST
from mnemoscope.tasks.data_files import DataFolder
from mnemoscope.tasks.mnist import MNIST, read_idx
from mnemoscope.tasks.penn_treebank import PTB, read_text
from tests.tasks.data_sets import archive, digits, fill, idx, stand_in, texts


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MNEMOSCOPE_DATA", raising=False)


@pytest.fixture
def cache(tmp_path) -> Path:
    return tmp_path / "home" / ".cache" / "mnemoscope"


def read(data_set, data=None) -> list[bytes]:
    folder = DataFolder.find(None if data is None else str(data))
    data_set.fetch(folder, progress=False)
    return list(data_set.read(folder))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# Lookup.


def test_the_option_precedes_the_variable_which_precedes_the_cache(monkeypatch, tmp_path, cache):
    assert DataFolder.find(None) == DataFolder(cache, None)
    monkeypatch.setenv("MNEMOSCOPE_DATA", "")
    assert DataFolder.find(None) == DataFolder(cache, None)
    monkeypatch.setenv("MNEMOSCOPE_DATA", str(tmp_path / "named"))
    assert DataFolder.find(None) == DataFolder(tmp_path / "named", "MNEMOSCOPE_DATA")
    assert DataFolder.find("~/mine") == DataFolder(tmp_path / "home" / "mine", "the option data")


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("below", ["mnist", "."])
def test_files_are_found_in_the_named_folder_or_below_it(zipped, below, tmp_path):
    tiny = stand_in(MNIST, digits())
    fill(tmp_path / below, tiny, digits(), zipped)
    assert read(tiny, tmp_path) == digits()


def test_the_checksum_ignores_the_compression(tmp_path):
    tiny = stand_in(PTB, texts())
    fill(tmp_path, tiny, texts())
    path = tmp_path / "ptb.char.test.txt.gz"
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes()), compresslevel=1, mtime=12345))
    assert read(tiny, tmp_path) == texts()


@pytest.mark.parametrize("by", ["the option data", "MNEMOSCOPE_DATA"])
def test_a_file_missing_in_a_named_folder_is_not_downloaded(by, tmp_path, monkeypatch, cache):
    tiny = stand_in(PTB, texts())
    fill(tmp_path / "ptb", tiny, texts())
    (tmp_path / "ptb" / "ptb.char.valid.txt.gz").unlink()
    monkeypatch.setenv("MNEMOSCOPE_DATA", str(tmp_path))
    words = (
        rf"needs the file ptb\.char\.valid\.txt, but there is none .* in {tmp_path}/ptb or {tmp_path}, where {by} says"
        rf".*simple-examples\.tgz \(simple-examples/data/ptb\.char\.valid\.txt in that archive\); "
        rf"without {by} .* to {cache}\."
    )
    with pytest.raises(FileNotFoundError, match=words):
        read(tiny, tmp_path if by == "the option data" else None)
    assert not cache.exists()


@pytest.mark.parametrize("zipped", [True, False])
def test_a_changed_byte_is_detected(zipped, tmp_path):
    contents = digits()
    tiny = stand_in(MNIST, contents)
    fill(tmp_path, tiny, [contents[0], contents[1][:-1] + b"\x0b", *contents[2:]], zipped)
    words = rf"train-labels-idx1-ubyte(\.gz)? is not the original.*SHA-256 [0-9a-f]{{64}}, but {tiny.files[1].sha256}"
    with pytest.raises(ValueError, match=rf"{words} was expected\. Remove it, and take the one of https://"):
        read(tiny, tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 30, -1])
def test_a_truncated_file_is_detected(keep, tmp_path):
    tiny = stand_in(MNIST, digits())
    fill(tmp_path, tiny, digits())
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte.gz (cannot be unpacked: .* cut short\?|is not the)"):
        read(tiny, tmp_path)


def test_a_damaged_gzip_file_is_detected(tmp_path):
    tiny = stand_in(MNIST, digits())
    fill(tmp_path, tiny, digits())
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    packed = bytearray(path.read_bytes())
    packed[200:220] = bytes(20)
    path.write_bytes(packed)
    with pytest.raises(ValueError, match=r"cannot be unpacked|is not the original"):
        read(tiny, tmp_path)


# Download.


class Server(HTTPServer):
    """Serves `contents` by path, or redirects to an address; `/short` announces more bytes than it sends."""

    contents: dict[str, bytes]
    redirects: dict[str, str]
    requests: list[str]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[self.path])
            self.end_headers()
            return
        content = self.server.contents.get(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"") + 100 * self.path.startswith("/short")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, format, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    """A server at an https address; the connection is plain, since a certificate would add nothing to these tests."""
    monkeypatch.setattr(HTTPSHandler, "https_open", lambda self, request: self.do_open(HTTPConnection, request))
    with Server(("127.0.0.1", 0), Handler) as server:
        server.contents, server.redirects, server.requests = {}, {}, []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))  # seconds until it sees its end
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def at(server, path: str) -> str:
    return f"https://127.0.0.1:{server.server_port}{path}"


def test_absent_files_are_downloaded_once(server, cache, capsys):
    names = [f"/{file.name}.gz" for file in MNIST.files]
    server.contents = {name: gzip.compress(content) for name, content in zip(names, digits(), strict=True)}
    tiny = stand_in(MNIST, digits(), [at(server, name) for name in names])
    (cache / "mnist").mkdir(parents=True)
    (cache / "mnist" / "train-labels-idx1-ubyte").write_bytes(digits()[1])
    tiny.fetch(DataFolder.find(None))
    assert "MNIST: train-images-idx3-ubyte.gz: 100%" in capsys.readouterr().err
    assert read(tiny) == digits()
    assert server.requests == [names[0], *names[2:]]
    assert files(cache) == sorted(file.name for file in MNIST.files)


def test_an_archive_is_downloaded_once_for_all_its_files(server, cache):
    server.contents = {"/simple-examples.tgz": archive(texts())}
    tiny = stand_in(PTB, texts(), [at(server, "/simple-examples.tgz")] * 3)
    assert read(tiny) == texts()
    assert server.requests == ["/simple-examples.tgz"]
    assert files(cache) == sorted(file.name for file in PTB.files)


def test_files_can_come_from_a_local_archive(tmp_path, cache):
    packed = tmp_path / "any.tgz"
    packed.write_bytes(archive(texts()))
    assert read(stand_in(PTB, texts(), [packed.as_uri()] * 3)) == texts()


@pytest.mark.parametrize(
    ("path", "content", "error", "words"),
    [
        (
            "/nowhere",
            None,
            ConnectionError,
            r"nowhere could not be downloaded: .*404.*You can.*MNEMOSCOPE_DATA",
        ),
        ("/short.tgz", archive(texts()), ConnectionError, r"it ended after [\d,]+ of [\d,]+ bytes"),
        ("/cut.tgz", archive(texts())[:-900], ValueError, r"The download of http.*cut\.tgz cannot be unpacked"),
        ("/page.tgz", b"<html>Not here any more</html>", ValueError, r"cannot be unpacked: not a gzip file"),
        ("/other.tgz", archive(texts((50, 40, 30))), ValueError, r"is not the original ptb\.char\.train\.txt"),
        ("/less.tgz", archive(texts()[:1]), ValueError, r"the archive has no simple-examples/data/ptb\.char\.valid"),
    ],
    ids=["nowhere", "short", "cut", "page", "other", "less"],  # not the content, in which the time is written
)
def test_a_failed_download_leaves_no_wrong_file(path, content, error, words, server, cache):
    server.contents = {} if content is None else {path: content}
    tiny = stand_in(PTB, texts(), [at(server, path)] * 3)
    with pytest.raises(error, match=words):
        read(tiny)
    assert files(cache) == (["ptb.char.train.txt"] if path == "/less.tgz" else [])  # complete files are kept


def test_an_unreachable_server_is_reported(cache):
    tiny = stand_in(PTB, texts(), ["https://127.0.0.1:9/any.tgz"] * 3)
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:9/any\.tgz could not be downloaded"):
        read(tiny)


def test_only_https_addresses_are_fetched(server, cache):
    server.contents = {"/any.tgz": archive(texts())}
    tiny = stand_in(PTB, texts(), [at(server, "/any.tgz").replace("https:", "http:")] * 3)
    with pytest.raises(ConnectionError, match=r"http://.* could not be downloaded: data are fetched over https only\."):
        read(tiny)
    assert server.requests == files(cache) == []
    assert all(file.url.startswith("https://") for data_set in (MNIST, PTB) for file in data_set.files)


def test_a_redirect_to_http_is_refused_and_one_to_https_followed(server, cache):
    server.contents = {"/any.tgz": archive(texts())}
    server.redirects = {"/plain": at(server, "/any.tgz").replace("https:", "http:"), "/safe": at(server, "/any.tgz")}
    with pytest.raises(ConnectionError, match=r"/plain could not be downloaded: it redirects to http://.*https only"):
        read(stand_in(PTB, texts(), [at(server, "/plain")] * 3))
    assert server.requests == ["/plain"]
    assert files(cache) == []
    assert read(stand_in(PTB, texts(), [at(server, "/safe")] * 3)) == texts()


def test_a_wrong_file_in_the_cache_is_reported_with_advice(cache):
    tiny = stand_in(PTB, texts())
    fill(cache / "ptb", tiny, texts((50, 40, 30)), zipped=False)
    with pytest.raises(ValueError, match=r"is not the original.*Remove it, and it is downloaded again\."):
        read(tiny)


# Content.


@pytest.mark.parametrize(
    "content",
    [b"", b"\x00\x00\x08", b"\x00\x00\x0d\x01\x00\x00\x00\x01\x07", digits()[0][:-1], digits()[0] + b"\x00", b"hello"],
)
def test_files_that_are_not_idx_are_refused(content):
    with pytest.raises(ValueError, match="some-file is not an idx file of bytes"):
        read_idx(content, "some-file")


def test_arrays_of_other_shapes_are_refused(tmp_path, monkeypatch):
    contents = digits()
    contents[1] = contents[3]  # ten labels for sixty images
    tiny = stand_in(MNIST, contents)
    fill(tmp_path, tiny, contents)
    monkeypatch.setattr(SequentialMNIST, "data_set", tiny)
    with pytest.raises(ValueError, match=r"train-images-idx3-ubyte .* shapes \(60, 28, 28\) and \(10,\)"):
        SequentialMNIST(data=str(tmp_path)).prepare(progress=False)
    assert read_idx(idx(read_idx(contents[0], "images").numpy()), "again").shape == (60, 28, 28)


@pytest.mark.parametrize(("content", "words"), [(b"a b A ", "holds 'A'"), (b" ", "fewer than two"), (b"\xff a", "'ÿ'")])
def test_a_text_of_other_characters_is_refused(content, words):
    with pytest.raises(ValueError, match=f"some-file should hold characters .*{words}"):
        read_text(content, "some-file")


@pytest.mark.parametrize("task", ["smnist", "psmnist", "ptb"])
def test_training_without_data_stops_before_any_work(task, tmp_path, capsys):
    root = tmp_path / "runs"
    words = ["train", "--task", task, "--name", "try", "--task-options", "data", str(tmp_path / "no")]
    assert main([*words, "--root", str(root)]) == 2
    output = capsys.readouterr().err
    assert re.search(r"^mnemoscope: .* needs the file .*the option data says", output)
    assert not root.exists()


# The real data, if present.

REAL = os.environ.get("MNEMOSCOPE_DATA") or "nowhere"


@pytest.mark.skipif(not (Path(REAL) / "ptb").is_dir(), reason="MNEMOSCOPE_DATA names no folder with ptb")
def test_the_penn_treebank_has_mikolovs_split():
    import torch

    from mnemoscope.tasks.penn_treebank import VOCABULARY

    task = PennTreebank(data=REAL)
    text = task.load()
    assert {split: len(part) for split, part in text.items()} == {
        "train": 5017482,
        "validation": 393042,
        "test": 442423,
    }
    assert [len(part.unique()) for part in text.values()] == [50, 50, 48]
    assert "".join(VOCABULARY[each] for each in text["test"][:20].tolist()) == "no_it_was_n't_black_"
    last, following = text["train"][:-1].long(), text["train"][1:].long()
    pairs = torch.bincount(50 * last + following, minlength=2500).view(50, 50).double()
    surprise = -(pairs / pairs.sum(1, keepdim=True)).log().nan_to_num(posinf=0.0)
    assert task.baseline() == pytest.approx(((pairs * surprise).sum() / pairs.sum()).item(), abs=1e-6)
    guess, (last, following) = pairs.argmax(1), (text["test"][:-1].long(), text["test"][1:].long())
    assert task.chance() == pytest.approx((guess[last] == following).double().mean().item(), abs=1e-6)


@pytest.mark.skipif(not (Path(REAL) / "mnist").is_dir(), reason="MNEMOSCOPE_DATA names no folder with mnist")
def test_mnist_has_the_original_digits():
    task = PermutedMNIST(data=REAL)
    digits = task.load()
    assert {split: len(part.labels) for split, part in digits.items()} == {
        "train": 50_000, "validation": 10_000, "test": 10_000,
    }  # fmt: skip
    assert digits["train"].labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert digits["test"].labels[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert (digits["train"].images[:, -1] == 0).all()
    assert task.batch(100, seed=0, number=499).inputs.shape == (784, 100, 1)
    assert task.chance() == (digits["test"].labels == 1).double().mean().item()
    assert task.batches(100, "train") == 500
