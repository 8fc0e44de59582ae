"""Tasks: seeded streams of (inputs, targets, mask), generated or from a data set, with a memoryless baseline loss."""

from mnemoscope.tasks.adding import Adding as Adding
from mnemoscope.tasks.associative_recall import AssociativeRecall as AssociativeRecall, MatrixRecall as MatrixRecall
from mnemoscope.tasks.binding import (
    ComposeCopy as ComposeCopy,
    RepeatCopy as RepeatCopy,
    VariableBinding as VariableBinding,
)
from mnemoscope.tasks.bit_copy import BitCopy as BitCopy, BitRepeatCopy as BitRepeatCopy, MatrixCopy as MatrixCopy
from mnemoscope.tasks.bit_task import BitTask as BitTask
from mnemoscope.tasks.cognitive import (
    AngleMemory as AngleMemory,
    ContextDecision as ContextDecision,
    DelayedMatch as DelayedMatch,
    EnvironmentTask as EnvironmentTask,
    MultiTask as MultiTask,
    ParametricMemory as ParametricMemory,
    PerceptualDecision as PerceptualDecision,
    ReadySetGo as ReadySetGo,
    Trials as Trials,
    TrialTask as TrialTask,
)
from mnemoscope.tasks.copy import Copy as Copy, Denoise as Denoise, TransferCopy as TransferCopy
from mnemoscope.tasks.flipflop import FlipFlop as FlipFlop
from mnemoscope.tasks.key_value_recall import KeyValueRecall as KeyValueRecall
from mnemoscope.tasks.mnist import PermutedMNIST as PermutedMNIST, SequentialMNIST as SequentialMNIST
from mnemoscope.tasks.penn_treebank import PennTreebank as PennTreebank
from mnemoscope.tasks.relational_sequence import RelationalSequence as RelationalSequence
from mnemoscope.tasks.task import (
    Batch as Batch,
    DataTask as DataTask,
    GeneratedTask as GeneratedTask,
    Split as Split,
    Task as Task,
)
from mnemoscope.tasks.tokens import (
    BracketArithmetic as BracketArithmetic,
    InductionHeads as InductionHeads,
    MadCompression as MadCompression,
    MadFuzzyRecall as MadFuzzyRecall,
    MadMemorisation as MadMemorisation,
    MadNoisyRecall as MadNoisyRecall,
    MadRecall as MadRecall,
    MadSelectiveCopy as MadSelectiveCopy,
    ModularArithmetic as ModularArithmetic,
    MultiQueryRecall as MultiQueryRecall,
    NgramRecall as NgramRecall,
    Parity as Parity,
    SelectiveCopy as SelectiveCopy,
    StringCopy as StringCopy,
    TokenTask as TokenTask,
)
from mnemoscope.tasks.word_problem import WordProblem as WordProblem
