"""Tasks: seeded streams of (inputs, targets, mask), generated or from a data set, with a memoryless baseline loss."""

from mnemoscope.tasks.adding import Adding
from mnemoscope.tasks.associative_recall import AssociativeRecall, MatrixRecall
from mnemoscope.tasks.binding import ComposeCopy, RepeatCopy, VariableBinding
from mnemoscope.tasks.bit_copy import BitCopy, BitRepeatCopy, MatrixCopy
from mnemoscope.tasks.bit_task import BitTask
from mnemoscope.tasks.copy import Copy
from mnemoscope.tasks.data_task import DataTask
from mnemoscope.tasks.denoise import Denoise
from mnemoscope.tasks.flipflop import FlipFlop
from mnemoscope.tasks.mnist import PermutedMNIST, SequentialMNIST
from mnemoscope.tasks.penn_treebank import PennTreebank
from mnemoscope.tasks.relational_sequence import RelationalSequence
from mnemoscope.tasks.task import Batch, GeneratedTask, Split, Task
from mnemoscope.tasks.transfer_copy import TransferCopy

__all__ = [
    "Adding",
    "AssociativeRecall",
    "Batch",
    "BitCopy",
    "BitRepeatCopy",
    "BitTask",
    "ComposeCopy",
    "Copy",
    "DataTask",
    "Denoise",
    "FlipFlop",
    "GeneratedTask",
    "MatrixCopy",
    "MatrixRecall",
    "PennTreebank",
    "PermutedMNIST",
    "RelationalSequence",
    "RepeatCopy",
    "SequentialMNIST",
    "Split",
    "Task",
    "TransferCopy",
    "VariableBinding",
]
