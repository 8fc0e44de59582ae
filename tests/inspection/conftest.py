"""Pages in these tests have few interventions, since most of them are not about these."""

import pytest


@pytest.fixture(autouse=True)
def few_interventions(monkeypatch):
    monkeypatch.setattr("mnemoscope.inspection.intervention.SIZES", ((48, 20),))
