import subprocess
import sys

import pytest

from mnemoscope import registry
from mnemoscope.registry import citations

REGISTRIES = [registry.cells, registry.networks, registry.tasks, registry.lenses, registry.studies]


@pytest.mark.parametrize("entries", REGISTRIES, ids=lambda entries: entries.kind)
def test_every_key_of_the_registries_has_its_entry(entries):
    for entry in entries:
        for key in entry.cites:
            assert key in citations.BIBTEX, f"{entries.kind} {entry.name} cites {key!r}, which references.bib lacks"


@pytest.mark.parametrize("key", citations.BIBTEX)
def test_an_entry_is_well_formed(key):
    entry = citations.BIBTEX[key]
    assert entry.startswith("@")
    assert entry.split("{", 1)[1].split(",", 1)[0] == key
    assert entry.count("{") == entry.count("}")
    assert entry.endswith("\n}")
    assert "author" in entry
    assert "title" in entry
    assert "\t" not in entry
    entry.encode("ascii")  # BibTeX of old reads nothing else


def test_two_entries_of_one_key_are_refused():
    assert citations._read("@misc{a,\n}\n\n@misc{b,\n}\n") == {"a": "@misc{a,\n}", "b": "@misc{b,\n}"}
    with pytest.raises(ValueError, match="twice"):
        citations._read("@misc{a,\n}\n\n@book{a,\n}\n")


def test_bibtex_keeps_the_order_and_prints_each_entry_once():
    text = citations.bibtex(["sussillo2013", "jang", "sussillo2013"])
    assert text.count("@") == 2
    assert text.index("sussillo2013") < text.index("{jang")
    assert citations.bibtex([]) == ""


def test_an_unknown_key_is_met_with_the_known_ones():
    with pytest.raises(KeyError, match="Did you mean 'elman1990'"):
        citations.bibtex(["elman1991"])


def test_citations_can_be_read_without_torch():
    check = "import sys, mnemoscope.registry.citations; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
