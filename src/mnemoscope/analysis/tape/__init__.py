"""What a Turing machine wrote to its tape, and where its heads were."""

from mnemoscope.analysis.tape.looking import Tape, tape_of

__all__ = ["Tape", "tape_of"]
