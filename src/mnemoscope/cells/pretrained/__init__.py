"""Networks of other libraries as cells: transformers, xlstm, mambapy and minGRU-pytorch.

A cell of this folder calls the module that it was given and makes its step pure: the state goes in and comes out as a
NamedTuple, and nothing is changed in place. No library is imported here unless one of its modules was passed.
"""

from mnemoscope.cells.pretrained.detection import cell_from_library as cell_from_library, library_of as library_of
