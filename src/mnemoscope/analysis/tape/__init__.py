"""What a Turing machine wrote to its tape, where its heads were, and where it can rest."""

from mnemoscope.analysis.tape.even import EvenRests, EvenTape, even_rests
from mnemoscope.analysis.tape.looking import Tape, tape_of
from mnemoscope.analysis.tape.resting import evened

__all__ = ["EvenRests", "EvenTape", "Tape", "even_rests", "evened", "tape_of"]
