"""Cells, each one step of a recurrent network, and `scan`, which runs a cell over a sequence."""

from mnemoscope.cells.adapters import (
    FunctionCell as FunctionCell,
    Network as Network,
    adapt as adapt,
    as_cell as as_cell,
)
from mnemoscope.cells.affine.layer import AffineLayer as AffineLayer
from mnemoscope.cells.affine_reading import affine_layers as affine_layers
from mnemoscope.cells.block import Block as Block
from mnemoscope.cells.cell import Cell as Cell
from mnemoscope.cells.decoder import SequenceDecoder as SequenceDecoder
from mnemoscope.cells.diagonal import DiagonalGRU as DiagonalGRU, DiagonalLSTM as DiagonalLSTM
from mnemoscope.cells.echo_state import EchoState as EchoState
from mnemoscope.cells.elman import Elman as Elman
from mnemoscope.cells.episodic import EpisodicMemory as EpisodicMemory, EpisodicState as EpisodicState
from mnemoscope.cells.episodic_map import EpisodicMap as EpisodicMap, EpisodicStore as EpisodicStore
from mnemoscope.cells.fast_path import FastPath as FastPath, NoFastPath as NoFastPath
from mnemoscope.cells.fitted_networks import load_fitted_network as load_fitted_network
from mnemoscope.cells.goru import GORU as GORU
from mnemoscope.cells.gru import GRU as GRU
from mnemoscope.cells.inputs import (
    Inputs as Inputs,
    Lengths as Lengths,
    check_finite_inputs as check_finite_inputs,
    read_equal_inputs as read_equal_inputs,
    read_inputs as read_inputs,
)
from mnemoscope.cells.leaky_rnn import LeakyRNN as LeakyRNN
from mnemoscope.cells.lstm import LSTM as LSTM, HDetach as HDetach, LSTMState as LSTMState
from mnemoscope.cells.model import Model as Model
from mnemoscope.cells.network_files import load_network as load_network
from mnemoscope.cells.newton import Newton as Newton
from mnemoscope.cells.nonlinearities import Nonlinearity as Nonlinearity
from mnemoscope.cells.recording import Cache as Cache, patch as patch, run_with_cache as run_with_cache
from mnemoscope.cells.reservoirs import Reservoirs as Reservoirs
from mnemoscope.cells.sequence import Route as Route, scan as scan
from mnemoscope.cells.slstm import SLSTM as SLSTM, SLSTMState as SLSTMState
from mnemoscope.cells.stack import Stack as Stack
from mnemoscope.cells.state import Layout as Layout, State as State
from mnemoscope.cells.state_files import load_state as load_state, save_state as save_state
from mnemoscope.cells.surroundings import Surroundings as Surroundings
