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
    "beck2024": r"""@inproceedings{beck2024,
  author    = {Beck, Maximilian and P{\"o}ppel, Korbinian and Spanring, Markus and Auer, Andreas and
               Prudnikova, Oleksandra and Kopp, Michael and Klambauer, G{\"u}nter and Brandstetter, Johannes and
               Hochreiter, Sepp},
  title     = {{xLSTM}: Extended Long Short-Term Memory},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {37},
  year      = {2024}
}""",
    "benettin1980": """\
@article{benettin1980,
  author  = {Benettin, Giancarlo and Galgani, Luigi and Giorgilli, Antonio and Strelcyn, Jean-Marie},
  title   = {Lyapunov Characteristic Exponents for Smooth Dynamical Systems and for {H}amiltonian Systems; a Method for
             Computing All of Them. {P}art 1: Theory},
  journal = {Meccanica},
  volume  = {15},
  number  = {1},
  pages   = {9--20},
  year    = {1980},
  doi     = {10.1007/BF02128236}
}""",
    "chevalier2018": """\
@misc{chevalier2018,
  author       = {Chevalier-Boisvert, Maxime and Willems, Lucas},
  title        = {Minimalistic Gridworld Environment for {OpenAI} Gym},
  year         = {2018},
  howpublished = {https://github.com/maximecb/gym-minigrid}
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
    "collier2018": """\
@inproceedings{collier2018,
  author    = {Collier, Mark and Beel, Joeran},
  title     = {Implementing Neural Turing Machines},
  booktitle = {Artificial Neural Networks and Machine Learning (ICANN)},
  pages     = {94--104},
  year      = {2018}
}""",
    "dao2024": """\
@inproceedings{dao2024,
  author    = {Dao, Tri and Gu, Albert},
  title     = {Transformers are {SSM}s: Generalized Models and Efficient Algorithms Through Structured State Space
               Duality},
  booktitle = {Proceedings of the 41st International Conference on Machine Learning},
  year      = {2024}
}""",
    "do2017": """\
@article{do2017,
  author  = {Do, Kien and Tran, Truyen and Venkatesh, Svetha},
  title   = {Learning Deep Matrix Representations},
  journal = {arXiv preprint arXiv:1703.01454},
  year    = {2017}
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
    "ganguli2008": """\
@article{ganguli2008,
  author  = {Ganguli, Surya and Huh, Dongsung and Sompolinsky, Haim},
  title   = {Memory Traces in Dynamical Systems},
  journal = {Proceedings of the National Academy of Sciences},
  volume  = {105},
  number  = {48},
  pages   = {18970--18975},
  year    = {2008}
}""",
    "jaeger2007": """\
@article{jaeger2007,
  title = {Optimization and applications of echo state networks with leaky-integrator neurons},
  author = {Jaeger, Herbert and Luko{\\v{s}}evi{\\v{c}}ius, Mantas and Popovici, Dan and Siewert, Udo},
  journal = {Neural Networks},
  volume = {20},
  number = {3},
  pages = {335--352},
  year = {2007}
}""",
    "jang": """\
@unpublished{jang,
  author = {Jang, Eric V.},
  title  = {Recurrent Neural Networks: a Dynamical Systems Perspective},
  note   = {Term paper, APMA 1360, Brown University}
}""",
    "hopfield1982": """\
@article{hopfield1982,
  author  = {Hopfield, John J.},
  title   = {Neural networks and physical systems with emergent collective computational abilities},
  journal = {Proceedings of the National Academy of Sciences},
  volume  = {79},
  number  = {8},
  pages   = {2554--2558},
  year    = {1982}
}""",
    "jaeger2001": """\
@techreport{jaeger2001,
  author      = {Jaeger, Herbert},
  title       = {Short Term Memory in Echo State Networks},
  institution = {GMD -- German National Research Institute for Computer Science},
  number      = {152},
  year        = {2001}
}""",
    "geist1990": """\
@article{geist1990,
  author  = {Geist, Karlheinz and Parlitz, Ulrich and Lauterborn, Werner},
  title   = {Comparison of Different Methods for Computing {L}yapunov Exponents},
  journal = {Progress of Theoretical Physics},
  volume  = {83},
  number  = {5},
  pages   = {875--893},
  year    = {1990},
  doi     = {10.1143/PTP.83.875}
}""",
    "graves2014": """\
@misc{graves2014,
  author        = {Graves, Alex and Wayne, Greg and Danihelka, Ivo},
  title         = {Neural {T}uring Machines},
  year          = {2014},
  eprint        = {1410.5401},
  archiveprefix = {arXiv}
}""",
    "helfrich2018": r"""@inproceedings{helfrich2018,
  author    = {Helfrich, Kyle and Willmott, Devin and Ye, Qiang},
  title     = {Orthogonal Recurrent Neural Networks with Scaled {C}ayley Transform},
  booktitle = {Proceedings of the 35th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {80},
  pages     = {1969--1978},
  year      = {2018}
}""",
    "henaff2016": r"""@inproceedings{henaff2016,
  author    = {Henaff, Mikael and Szlam, Arthur and LeCun, Yann},
  title     = {Recurrent Orthogonal Networks and Long-Memory Tasks},
  booktitle = {Proceedings of the 33rd International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {48},
  pages     = {2034--2042},
  year      = {2016}
}""",
    "jing2017": r"""@inproceedings{jing2017,
  author    = {Jing, Li and Shen, Yichen and Dubcek, Tena and Peurifoy, John and Skirlo, Scott and LeCun, Yann and
               Tegmark, Max and Solja{\v{c}}i{\'c}, Marin},
  title     = {Tunable Efficient Unitary Neural Networks ({EUNN}) and their Application to {RNN}s},
  booktitle = {Proceedings of the 34th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {70},
  pages     = {1733--1741},
  year      = {2017}
}""",
    "bahdanau2015": r"""@inproceedings{bahdanau2015,
  title = {Neural Machine Translation by Jointly Learning to Align and Translate},
  author = {Bahdanau, Dzmitry and Cho, Kyunghyun and Bengio, Yoshua},
  booktitle = {International Conference on Learning Representations},
  year = {2015},
}""",
    "jing2019": r"""@article{jing2019,
  author  = {Jing, Li and Gulcehre, Caglar and Peurifoy, John and Shen, Yichen and Tegmark, Max and
             Solja{\v{c}}i{\'c}, Marin and Bengio, Yoshua},
  title   = {Gated Orthogonal Recurrent Units: On Learning to Forget},
  journal = {Neural Computation},
  volume  = {31},
  number  = {4},
  pages   = {765--783},
  year    = {2019},
  doi     = {10.1162/neco_a_01174}
}""",
    "kaplan1979": """\
@incollection{kaplan1979,
  author    = {Kaplan, James L. and Yorke, James A.},
  title     = {Chaotic Behavior of Multidimensional Difference Equations},
  booktitle = {Functional Differential Equations and Approximation of Fixed Points},
  series    = {Lecture Notes in Mathematics},
  volume    = {730},
  publisher = {Springer},
  pages     = {204--227},
  year      = {1979},
  doi       = {10.1007/BFb0064319}
}""",
    "karuvally2023": """\
@inproceedings{karuvally2023,
  author    = {Karuvally, Arjun and DelMastro, Peter and Siegelmann, Hava T.},
  title     = {Episodic Memory Theory of Recurrent Neural Networks: Insights into Long-Term Information Storage and
               Manipulation},
  booktitle = {Topology, Algebra, and Geometry in Machine Learning ({TAG-ML}) Workshop at {ICML}},
  year      = {2023}
}""",
    "kanuparthi2019": """\
@inproceedings{kanuparthi2019,
  author    = {Kanuparthi, Bhargav and Arpit, Devansh and Kerg, Giancarlo and Ke, Nan Rosemary and Mitliagkas, Ioannis
               and Bengio, Yoshua},
  title     = {h-detach: Modifying the {LSTM} Gradient Towards Better Optimization},
  booktitle = {International Conference on Learning Representations},
  year      = {2019}
}""",
    "ke2018": """\
@inproceedings{ke2018,
  author    = {Ke, Nan Rosemary and Goyal, Anirudh and Bilaniuk, Olexa and Binas, Jonathan and Mozer, Michael C. and
               Pal, Chris and Bengio, Yoshua},
  title     = {Sparse Attentive Backtracking: Temporal Credit Assignment Through Reminding},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {31},
  year      = {2018}
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
    "le2015": """\
@misc{le2015,
  author        = {Le, Quoc V. and Jaitly, Navdeep and Hinton, Geoffrey E.},
  title         = {A Simple Way to Initialize Recurrent Networks of Rectified Linear Units},
  year          = {2015},
  eprint        = {1504.00941},
  archiveprefix = {arXiv}
}""",
    "lezcano2019": r"""@inproceedings{lezcano2019,
  author    = {Lezcano-Casado, Mario and Mart{\'i}nez-Rubio, David},
  title     = {Cheap Orthogonal Constraints in Neural Networks: A Simple Parametrization of the Orthogonal and
               Unitary Group},
  booktitle = {Proceedings of the 36th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {97},
  pages     = {3794--3803},
  year      = {2019}
}""",
    "maduranga2019": """\
@inproceedings{maduranga2019,
  author    = {Maduranga, Kehelwala D. G. and Helfrich, Kyle E. and Ye, Qiang},
  title     = {Complex Unitary Recurrent Neural Networks Using Scaled {C}ayley Transform},
  booktitle = {Proceedings of the {AAAI} Conference on Artificial Intelligence},
  volume    = {33},
  pages     = {4528--4535},
  year      = {2019},
  doi       = {10.1609/aaai.v33i01.33014528}
}""",
    "mhammedi2017": r"""@inproceedings{mhammedi2017,
  author    = {Mhammedi, Zakaria and Hellicar, Andrew and Rahman, Ashfaqur and Bailey, James},
  title     = {Efficient Orthogonal Parametrisation of Recurrent Neural Networks Using {H}ouseholder Reflections},
  booktitle = {Proceedings of the 34th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {70},
  pages     = {2401--2409},
  year      = {2017}
}""",
    "kerg2020": r"""@inproceedings{kerg2020,
  author    = {Kerg, Giancarlo and Kanuparthi, Bhargav and Goyal, Anirudh and Goyette, Kyle and Bengio, Yoshua and
               Lajoie, Guillaume},
  title     = {Untangling tradeoffs between recurrence and self-attention in artificial neural networks},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {33},
  year      = {2020}
}""",
    "lecun1998": """\
@article{lecun1998,
  author  = {LeCun, Yann and Bottou, L{\\'e}on and Bengio, Yoshua and Haffner, Patrick},
  title   = {Gradient-Based Learning Applied to Document Recognition},
  journal = {Proceedings of the IEEE},
  volume  = {86},
  number  = {11},
  pages   = {2278--2324},
  year    = {1998},
  doi     = {10.1109/5.726791}
}""",
    "marcus1993": """\
@article{marcus1993,
  author  = {Marcus, Mitchell P. and Santorini, Beatrice and Marcinkiewicz, Mary Ann},
  title   = {Building a Large Annotated Corpus of {E}nglish: The {P}enn {T}reebank},
  journal = {Computational Linguistics},
  volume  = {19},
  number  = {2},
  pages   = {313--330},
  year    = {1993}
}""",
    "mikolov2012": """\
@unpublished{mikolov2012,
  author = {Mikolov, Tom{\\'a}{\\v{s}} and Sutskever, Ilya and Deoras, Anoop and Le, Hai-Son and Kombrink, Stefan and
            {\\v{C}}ernock{\\'y}, Jan},
  title  = {Subword Language Modeling with Neural Networks},
  note   = {Preprint, \\url{http://www.fit.vutbr.cz/~imikolov/rnnlm/char.pdf}},
  year   = {2012}
}""",
    "renanse2021": """\
@article{renanse2021,
  author  = {Renanse, Animesh and Sharma, Alok and Chandra, Rohitash},
  title   = {Memory Capacity of Recurrent Neural Networks with Matrix Representation},
  journal = {arXiv preprint arXiv:2104.07454},
  year    = {2021}
}""",
    "sussillo2009": """\
@article{sussillo2009,
  title = {Generating Coherent Patterns of Activity from Chaotic Neural Networks},
  author = {Sussillo, David and Abbott, L. F.},
  journal = {Neuron},
  volume = {63},
  number = {4},
  pages = {544--557},
  year = {2009}
}""",
    "shimada1979": """\
@article{shimada1979,
  author  = {Shimada, Ippei and Nagashima, Tomomasa},
  title   = {A Numerical Approach to Ergodic Problem of Dissipative Dynamical Systems},
  journal = {Progress of Theoretical Physics},
  volume  = {61},
  number  = {6},
  pages   = {1605--1616},
  year    = {1979},
  doi     = {10.1143/PTP.61.1605}
}""",
    "serre2002": """\
@book{serre2002,
  author    = {Serre, Denis},
  title     = {Matrices: Theory and Applications},
  series    = {Graduate Texts in Mathematics},
  volume    = {216},
  publisher = {Springer},
  year      = {2002}
}""",
    "schulman2016": """\
@inproceedings{schulman2016,
  author    = {Schulman, John and Moritz, Philipp and Levine, Sergey and Jordan, Michael I. and Abbeel, Pieter},
  title     = {High-Dimensional Continuous Control Using Generalized Advantage Estimation},
  booktitle = {International Conference on Learning Representations},
  year      = {2016}
}""",
    "schulman2017": """\
@misc{schulman2017,
  author        = {Schulman, John and Wolski, Filip and Dhariwal, Prafulla and Radford, Alec and Klimov, Oleg},
  title         = {Proximal Policy Optimization Algorithms},
  year          = {2017},
  eprint        = {1707.06347},
  archiveprefix = {arXiv}
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
    "vorontsov2017": r"""@inproceedings{vorontsov2017,
  author    = {Vorontsov, Eugene and Trabelsi, Chiheb and Kadoury, Samuel and Pal, Chris},
  title     = {On Orthogonality and Learning Recurrent Networks with Long Term Dependencies},
  booktitle = {Proceedings of the 34th International Conference on Machine Learning},
  series    = {Proceedings of Machine Learning Research},
  volume    = {70},
  pages     = {3570--3578},
  year      = {2017}
}""",
    "wisdom2016": """\
@inproceedings{wisdom2016,
  author    = {Wisdom, Scott and Powers, Thomas and Hershey, John R. and Le Roux, Jonathan and Atlas, Les},
  title     = {Full-Capacity Unitary Recurrent Neural Networks},
  booktitle = {Advances in Neural Information Processing Systems},
  volume    = {29},
  pages     = {4880--4888},
  year      = {2016}
}""",
    "yang2025": """\
@inproceedings{yang2025,
  author    = {Yang, Songlin and Kautz, Jan and Hatamizadeh, Ali},
  title     = {Gated Delta Networks: Improving {Mamba2} with Delta Rule},
  booktitle = {International Conference on Learning Representations},
  year      = {2025}
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
