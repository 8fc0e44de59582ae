"""Tasks on tokens: recall, copying and formal languages, as published for modern recurrences."""

from mnemoscope.tasks.tokens.induction_heads import InductionHeads as InductionHeads
from mnemoscope.tasks.tokens.mad_compression import MadCompression as MadCompression
from mnemoscope.tasks.tokens.mad_copy import MadMemorisation as MadMemorisation, MadSelectiveCopy as MadSelectiveCopy
from mnemoscope.tasks.tokens.mad_fuzzy_recall import MadFuzzyRecall as MadFuzzyRecall
from mnemoscope.tasks.tokens.mad_recall import MadNoisyRecall as MadNoisyRecall, MadRecall as MadRecall
from mnemoscope.tasks.tokens.modular_arithmetic import (
    BracketArithmetic as BracketArithmetic,
    ModularArithmetic as ModularArithmetic,
)
from mnemoscope.tasks.tokens.multi_query_recall import MultiQueryRecall as MultiQueryRecall
from mnemoscope.tasks.tokens.ngram_recall import NgramRecall as NgramRecall
from mnemoscope.tasks.tokens.parity import Parity as Parity
from mnemoscope.tasks.tokens.selective_copy import SelectiveCopy as SelectiveCopy
from mnemoscope.tasks.tokens.string_copy import StringCopy as StringCopy
from mnemoscope.tasks.tokens.task import TokenTask as TokenTask
