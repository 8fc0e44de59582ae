"""Files that are damaged, endless or hostile are refused with their path and a reason."""

import json
import os
from typing import Literal, TypedDict

import pytest

from mnemoscope.base.reading import read_bytes, read_json, read_toml
from mnemoscope.base.safetensors_header import read_safetensors_header
from mnemoscope.base.schema import checked
from mnemoscope.base.terminal import printable


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "too deeply nested"),
        ('{"a": ' * 60 + "1" + "}" * 60, "too deeply nested"),
        ('{"a": ' + "1" * 5000 + "}", "digits"),
        ('{"a": ' + "1" * 200 + "}", "more than 100 digits"),
        ('{"a": "\\ud800"}', "not Unicode"),
        ("[]", "must be an object"),
        ("null", "must be an object"),
        ('{"a":', "is not a JSON file"),
    ],
)
def test_json_that_is_no_plain_object_is_refused(tmp_path, text, reason):
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=reason) as error:
        read_json(path)
    assert str(path) in str(error.value)


def test_toml_is_bounded_too(tmp_path):
    path = tmp_path / "a.toml"
    for text in ("a = " + "[" * 2000 + "]" * 2000, "a = 1979-05-27", "a = " + "1" * 5000):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"a\.toml"):
            read_toml(path)


def test_pipes_devices_and_folders_are_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(ValueError, match="pipe, a socket or a device"):
            read_bytes(tmp_path / name)
    with pytest.raises(ValueError, match="is a folder"):
        read_bytes(tmp_path)


def test_a_large_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_bytes(tmp_path / "a", 5) == b"12345"
    with pytest.raises(ValueError, match="too large"):
        read_bytes(tmp_path / "a", 4)


class _Part(TypedDict):
    size: int


class _Whole(TypedDict, total=False):
    parts: list[_Part]
    stopped: Literal["steps", "target"] | None
    scores: dict[str, float | None]


def test_a_schema_accepts_its_types_and_unknown_keys():
    content = {"parts": [{"size": 1, "more": "x"}], "stopped": None, "scores": {"a": 1, "b": None, "c": 0.5}, "new": 1}
    assert checked(content, _Whole) is content


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([], "the content must be an object"),
        ({"parts": [{}]}, r"parts\[0\].size is missing"),
        ({"parts": [{"size": True}]}, r"parts\[0\].size must be an integer, but is True"),
        ({"parts": None}, "parts must be a list"),
        ({"stopped": "never"}, "stopped must be"),
        ({"scores": {"a": "1"}}, "scores.a must be a number or null"),
    ],
)
def test_a_schema_names_the_wrong_entry(content, reason):
    with pytest.raises(ValueError, match=reason):
        checked(content, _Whole)


@pytest.mark.parametrize("header", ["[]", "null", '{"a": 1}', '{"a": {"dtype": "F32", "shape": [1]}}'])
def test_a_wrong_header_of_tensors_is_refused(tmp_path, header):
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(ValueError, match=r"header of .*a\.safetensors"):
        read_safetensors_header(path)
    path.write_bytes((2**63).to_bytes(8, "little"))
    with pytest.raises(ValueError, match="truncated, or not a safetensors file"):
        read_safetensors_header(path)


@pytest.mark.parametrize(
    ("shape", "offsets"),
    [([2**63, 0], [0, 0]), ([0, 2**70], [0, 0]), ([-1], [0, 0]), ([1], [0, 2**64]), ([1], [-4, 0])],
)
def test_impossible_sizes_of_tensors_are_refused(tmp_path, shape, offsets):
    path = tmp_path / "a.safetensors"
    header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match=r"header of .*a\.safetensors is damaged: a has an impossible shape"):
        read_safetensors_header(path)


def test_escape_sequences_are_removed():
    assert printable("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1b[2Jé\x9b31m\n") == "link é\n"
    assert printable("a\u202eb\udc80\x07") == "ab"
