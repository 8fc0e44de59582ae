"""What a Turing machine wrote to its tape, where its heads were, and where it can rest."""

from mnemoscope.lenses.tape.even import EvenRests, EvenTape, even_rests
from mnemoscope.lenses.tape.lens import Tape, record_tape
from mnemoscope.lenses.tape.resting import evened

__all__ = ["EvenRests", "EvenTape", "Tape", "even_rests", "evened", "record_tape"]
