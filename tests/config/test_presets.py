"""Presets: one TOML file each, with the hashes that stored runs carry."""

from importlib.resources import files

import pytest

from mnemoscope import registry
from mnemoscope.config import PRESETS

HASHES = {
    "flipflop": "0437d6e1fb",
    "copy": "f704b5e500",
    "adding": "8b571e8355",
    "psmnist": "3f944c1e76",
    "ptb": "f3329aee4a",
    "repeat-copy": "a5279cefd6",
    "compose-copy": "e3d7b95f30",
    "matntm": "1fe9462307",
    "ntm": "447f6f5042",
    "bit-copy": "6b5c8f01e8",
    "associative-recall": "b240f04f7c",
    "word-problem-a5": "f84e72a678",
    "word-problem-s3": "fa6da3c0fb",
    "word-problem-s5": "aca771a1e5",
    "word-problem-z6": "02e3581578",
    "mqar": "ced1ae0902",
    "parity": "50973d324d",
    "modular-arithmetic": "cc34b1466c",
    "bracket-arithmetic": "469c4daea2",
    "selective-copy": "5feaa74113",
    "induction-heads": "b17c3bd497",
    "string-copy": "62e1dc65d5",
    "ngram-recall": "2ba2ee8cdd",
    "mad-recall": "8e535d9708",
    "mad-fuzzy-recall": "9737408756",
    "mad-selective-copy": "f4bcb8af39",
    "mad-memorisation": "b116e17e08",
    "mad-compression": "b77b0c6a6a",
    "rmts": "26165250b0",
    "perceptual-decision": "3779731038",
    "context-decision": "ac365b2443",
    "parametric-memory": "a333955c1e",
    "delayed-match": "b106817f4b",
    "angle-memory": "ec2f5da5cc",
    "ready-set-go": "e5b3340b25",
    "low-rank-decision": "7b602b44be",
    "low-rank-context": "7f5c156de5",
    "low-rank-memory": "7fd6111ef7",
    "multi-task": "7f7ad916ea",
}
"""Hash of each preset, which names the folders of its runs."""


@pytest.mark.parametrize("name", HASHES)
def test_the_hash_of_a_preset_stays_the_same_between_versions(name):
    assert PRESETS[name].hash == HASHES[name]


def test_every_preset_has_a_file_of_its_name_that_begins_with_a_comment():
    folder = files("mnemoscope.config.presets")
    texts = {
        path.name.removesuffix(".toml"): path.read_text() for path in folder.iterdir() if path.name.endswith("toml")
    }
    assert texts.keys() == PRESETS.keys()
    for name, text in texts.items():
        assert text.startswith("# "), name
        assert PRESETS[name].name == name


def test_presets_have_the_order_of_their_tasks():
    order = [*registry.tasks.entries]
    places = [order.index(config.task) for config in PRESETS.values()]
    assert places == sorted(places)
    assert next(iter(PRESETS)) == "flipflop"
