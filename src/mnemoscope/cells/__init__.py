"""Cells, each one step of a recurrent network, and `scan`, which runs a cell over a sequence."""

from mnemoscope.cells.adapters import FunctionCell, adapt
from mnemoscope.cells.cell import Cell
from mnemoscope.cells.echo_state import EchoState
from mnemoscope.cells.elman import Elman
from mnemoscope.cells.episodic import EpisodicMemory, EpisodicState
from mnemoscope.cells.episodic_map import EpisodicMap
from mnemoscope.cells.episodic_store import EpisodicStore
from mnemoscope.cells.fast_path import FastPath, NoFastPath
from mnemoscope.cells.goru import GORU
from mnemoscope.cells.gru import GRU
from mnemoscope.cells.h_detach import HDetach
from mnemoscope.cells.lstm import LSTM, LSTMState
from mnemoscope.cells.model import Model
from mnemoscope.cells.network_files import load_network
from mnemoscope.cells.nonlinearities import Nonlinearity
from mnemoscope.cells.reservoirs import Reservoirs
from mnemoscope.cells.sequence import Cache, Route, run_with_cache, scan
from mnemoscope.cells.stack import Stack
from mnemoscope.cells.state import Layout, State

__all__ = [
    "GORU",
    "GRU",
    "LSTM",
    "Cache",
    "Cell",
    "EchoState",
    "Elman",
    "EpisodicMap",
    "EpisodicMemory",
    "EpisodicState",
    "EpisodicStore",
    "FastPath",
    "FunctionCell",
    "HDetach",
    "LSTMState",
    "Layout",
    "Model",
    "NoFastPath",
    "Nonlinearity",
    "Reservoirs",
    "Route",
    "Stack",
    "State",
    "adapt",
    "load_network",
    "run_with_cache",
    "scan",
]
