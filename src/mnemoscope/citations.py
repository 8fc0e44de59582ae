"""Whom to cite: BibTeX by key, as data that can be read without importing torch.

A registry entry names its keys in `cites`; the page of a network prints them with `bibtex`.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from mnemoscope import __version__

BIBTEX: dict[str, str] = {
    "mnemoscope": f"""\
@software{{mnemoscope,
  author  = {{{{The Mnemoscope founders}}}},
  title   = {{Mnemoscope: recurrent networks, and what they remember}},
  year    = {{2026}},
  version = {{{__version__}}}
}}""",
    "arjovsky2016": """\
@inproceedings{arjovsky2016,
  author    = {Arjovsky, Martin and Shah, Amar and Bengio, Yoshua},
  title     = {Unitary Evolution Recurrent Neural Networks},
  booktitle = {Proceedings of the 33rd International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {48},
  pages     = {1120--1128},
  year      = {2016}
}""",
    "cho2014": r"""@inproceedings{cho2014,
  author    = {Cho, Kyunghyun and van Merri{\"e}nboer, Bart and Gulcehre, Caglar and Bahdanau, Dzmitry and
               Bougares, Fethi and Schwenk, Holger and Bengio, Yoshua},
  title     = {Learning Phrase Representations using {RNN} Encoder--Decoder for Statistical Machine Translation},
  booktitle = {Proceedings of the 2014 Conference on Empirical Methods in Natural Language Processing ({EMNLP})},
  pages     = {1724--1734},
  year      = {2014},
  doi       = {10.3115/v1/D14-1179}
}""",
    "elman1990": """\
@article{elman1990,
  author  = {Elman, Jeffrey L.},
  title   = {Finding Structure in Time},
  journal = {Cognitive Science},
  volume  = {14},
  number  = {2},
  pages   = {179--211},
  year    = {1990},
  doi     = {10.1207/s15516709cog1402_1}
}""",
    "henrici1962": """\
@article{henrici1962,
  author  = {Henrici, Peter},
  title   = {Bounds for Iterates, Inverses, Spectral Variation and Fields of Values of Non-normal Matrices},
  journal = {Numerische Mathematik},
  volume  = {4},
  number  = {1},
  pages   = {24--40},
  year    = {1962},
  doi     = {10.1007/BF01386294}
}""",
    "hochreiter1997": """\
@article{hochreiter1997,
  author  = {Hochreiter, Sepp and Schmidhuber, J{\\"u}rgen},
  title   = {Long Short-Term Memory},
  journal = {Neural Computation},
  volume  = {9},
  number  = {8},
  pages   = {1735--1780},
  year    = {1997},
  doi     = {10.1162/neco.1997.9.8.1735}
}""",
    "jang": """\
@unpublished{jang,
  author = {Jang, Eric V.},
  title  = {Recurrent Neural Networks: a Dynamical Systems Perspective},
  note   = {Term paper, APMA 1360, Brown University}
}""",
    "kerg2019": """\
@inproceedings{kerg2019,
  author    = {Kerg, Giancarlo and Goyette, Kyle and Puelma Touzel, Maximilian and Gidel, Gauthier and
               Vorontsov, Eugene and Bengio, Yoshua and Lajoie, Guillaume},
  title     = {Non-normal Recurrent Neural Network ({nnRNN}): Learning Long Time Dependencies while Improving
               Expressivity with Transient Dynamics},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {32},
  year      = {2019}
}""",
    "sussillo2013": """\
@article{sussillo2013,
  author  = {Sussillo, David and Barak, Omri},
  title   = {Opening the Black Box: Low-Dimensional Dynamics in High-Dimensional Recurrent Neural Networks},
  journal = {Neural Computation},
  volume  = {25},
  number  = {3},
  pages   = {626--649},
  year    = {2013},
  doi     = {10.1162/NECO_a_00409}
}""",
    "trefethen2005": """\
@book{trefethen2005,
  author    = {Trefethen, Lloyd N. and Embree, Mark},
  title     = {Spectra and Pseudospectra: The Behavior of Nonnormal Matrices and Operators},
  publisher = {Princeton University Press},
  year      = {2005}
}""",
}


def bibtex(keys: Iterable[str]) -> str:
    """The entries of `keys`, each once, in the order given, with an empty line between them.

    >>> print(bibtex(["jang"]).splitlines()[0])
    @unpublished{jang,
    """
    return "\n\n".join(_entry(key) for key in dict.fromkeys(keys))


def _entry(key: str) -> str:
    if key not in BIBTEX:
        near = get_close_matches(key, BIBTEX, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise KeyError(f"There is no citation with the key {key!r}.{hint} Known: {', '.join(BIBTEX)}.")
    return BIBTEX[key]
