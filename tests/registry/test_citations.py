"""References: well-formed BibTeX, sources, and the errors about unknown keys."""

import subprocess
import sys

import pytest

from mnemoscope import registry
from mnemoscope.registry import citations

REGISTRIES = [registry.cells, registry.networks, registry.tasks, registry.lenses, registry.studies]


@pytest.mark.parametrize("entries", REGISTRIES, ids=lambda entries: entries.kind)
def test_every_cited_key_has_a_bibtex_entry(entries):
    for entry in entries:
        for key in entry.cites:
            assert key in citations.BIBTEX, f"{entries.kind} {entry.name} cites {key!r}, which references.bib lacks"


@pytest.mark.parametrize("key", citations.BIBTEX)
def test_a_bibtex_entry_is_well_formed(key):
    entry = citations.BIBTEX[key]
    assert entry.startswith("@")
    assert entry.split("{", 1)[1].split(",", 1)[0] == key
    assert entry.count("{") == entry.count("}")
    assert entry.endswith("\n}")
    assert "author" in entry
    assert "title" in entry
    assert "\t" not in entry
    entry.encode("ascii")  # old versions of BibTeX read ASCII only


def test_two_bibtex_entries_with_one_key_are_refused():
    assert citations._read("@misc{a,\n}\n\n@misc{b,\n}\n") == {"a": "@misc{a,\n}", "b": "@misc{b,\n}"}
    with pytest.raises(ValueError, match="twice"):
        citations._read("@misc{a,\n}\n\n@book{a,\n}\n")


def test_bibtex_keeps_the_order_and_prints_each_entry_once():
    text = citations.bibtex(["sussillo2013", "jang", "sussillo2013"])
    assert text.count("@") == 2
    assert text.index("sussillo2013") < text.index("{jang")
    assert citations.bibtex([]) == ""


def test_an_unknown_key_is_refused_with_a_suggestion():
    with pytest.raises(KeyError, match="Did you mean 'elman1990'"):
        citations.bibtex(["elman1991"])


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("jang", "Jang"),
        ("kerg2022thesis", "Kerg 2022"),
        ("kerg2022", "Kerg et al. 2022"),
        ("karuvally2023", "Karuvally et al. 2023"),
        ("renanse2021", "Renanse et al. 2021"),
        ("sussillo2013", "Sussillo & Barak 2013"),
        ("lezcano2019", "Lezcano-Casado & Martínez-Rubio 2019"),
        ("sobol1967", "Sobol' 1967"),
        ("ansel2024", "Ansel et al. 2024"),
        ("mnemoscope", "mnemoscope"),
    ],
)
def test_the_short_name_of_a_work_is_its_authors_and_year(key, name):
    assert citations.short_name(key) == name


@pytest.mark.parametrize("key", citations.BIBTEX)
def test_every_work_has_a_short_name_without_latex(key):
    name = citations.short_name(key)
    assert name
    assert not set(name) & set("{}\\")


def test_the_short_name_of_an_open_list_of_authors_ends_with_et_al():
    citations.add_bibtex("@misc{others_test,\n  author = {Doe, Jane and others},\n  title = {X},\n  year = {2000}\n}")
    try:
        assert citations.short_name("others_test") == "Doe et al. 2000"
    finally:
        del citations.BIBTEX["others_test"]


def test_a_source_prints_its_work_and_its_place():
    assert str(citations.Source("kerg2022thesis", "Table 2")) == "Kerg 2022, Table 2"
    assert str(citations.Source("karuvally2023")) == "Karuvally et al. 2023"


def test_sources_are_equal_and_hashable_by_value():
    assert {citations.Source("jang", "Fig 9"), citations.Source("jang", "Fig 9")} == {citations.Source("jang", "Fig 9")}


def test_a_source_of_an_unknown_work_is_refused():
    with pytest.raises(KeyError, match="Did you mean 'kerg2022'"):
        citations.Source("kerg2023")


def test_citations_can_be_read_without_torch():
    check = "import sys, mnemoscope.registry.citations; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
