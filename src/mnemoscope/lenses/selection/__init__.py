"""Selection vectors: how strongly a network integrates each input at its fixed points."""

from mnemoscope.lenses.selection.lens import selection_vectors as selection_vectors
from mnemoscope.lenses.selection.result import SelectionVectors as SelectionVectors
