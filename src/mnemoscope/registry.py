"""What there is: cells, tasks, lenses and studies by name, as data that can be read without importing torch.

To add one, write its file and one line here. The command line, the studies and the documentation all read these lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Entry:
    """One named thing: what it is, where it comes from, and the `module:attribute` that holds it."""

    name: str
    summary: str
    source: str
    target: str
    tags: tuple[str, ...] = ()
    cites: tuple[str, ...] = ()
    """Keys into `citations.BIBTEX`."""

    def load(self) -> Any:
        module, _, attribute = self.target.partition(":")
        return getattr(import_module(module), attribute)


@dataclass
class Registry:
    """An ordered list of entries of one kind, with lookup by name."""

    kind: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, *entries: Entry) -> None:
        for entry in entries:
            if entry.name in self.entries:
                raise ValueError(f"There is already a {self.kind} named {entry.name!r}.")
            self.entries[entry.name] = entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self.entries:
            near = get_close_matches(name, self.entries, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"There is no {self.kind} named {name!r}.{hint} Known: {', '.join(self.entries)}.")
        return self.entries[name]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def load(self, name: str) -> Any:
        """The class or function behind a name."""
        return self[name].load()


OWN_READOUT = "own readout"
"""Tag of cells that take an `output_size` and have no other readout behind them."""

cells = Registry("cell")
cells.add(
    Entry(
        "elman",
        "h' = phi(V h + U x + b), any recurrent matrix and nonlinearity",
        "Elman 1990",
        "mnemoscope.cells:Elman",
        cites=("elman1990",),
    ),
    Entry(
        "gru",
        "gated recurrent unit, torch.nn.GRU's form",
        "Cho et al. 2014",
        "mnemoscope.cells:GRU",
        cites=("cho2014",),
    ),
    Entry(
        "lstm",
        "long short-term memory, torch.nn.LSTM's form",
        "Hochreiter & Schmidhuber 1997",
        "mnemoscope.cells:LSTM",
        cites=("hochreiter1997",),
    ),
    Entry(
        "h-detach",
        "LSTM whose gradient leaves h out at a random half of the steps",
        "Kanuparthi et al. 2019",
        "mnemoscope.cells:HDetach",
        cites=("kanuparthi2019", "hochreiter1997"),
    ),
    Entry(
        "rnn",
        "Elman cell, modReLU, free matrix from normal numbers",
        "Kerg, A.1",
        "mnemoscope.cells.named:rnn",
        cites=("elman1990", "kerg2019"),
    ),
    Entry(
        "irnn",
        "Elman cell, ReLU, free matrix from the identity",
        "Le et al. 2015",
        "mnemoscope.cells.named:irnn",
        cites=("le2015",),
    ),
    Entry(
        "rnn-orth",
        "Elman cell, free matrix from an orthogonal one",
        "Henaff et al. 2016",
        "mnemoscope.cells.named:rnn_orth",
        cites=("henaff2016",),
    ),
    Entry(
        "eurnn",
        "unitary matrix by layers of rotations (tunable or as in an FFT)",
        "Jing et al. 2017",
        "mnemoscope.cells.named:eurnn",
        cites=("jing2017",),
    ),
    Entry(
        "ornn",
        "orthogonal matrix by m Householder reflections",
        "Mhammedi et al. 2017",
        "mnemoscope.cells.named:ornn",
        cites=("mhammedi2017",),
    ),
    Entry(
        "urnn",
        "unitary matrix by phases, reflections and Fourier transforms",
        "Arjovsky et al. 2016",
        "mnemoscope.cells.named:urnn",
        cites=("arjovsky2016",),
    ),
    Entry(
        "full-urnn",
        "any unitary matrix, by Cayley steps or the exponential",
        "Wisdom et al. 2016",
        "mnemoscope.cells.named:full_urnn",
        cites=("wisdom2016",),
    ),
    Entry(
        "scornn",
        "orthogonal matrix by the scaled Cayley transform",
        "Helfrich et al. 2018",
        "mnemoscope.cells.named:scornn",
        cites=("helfrich2018",),
    ),
    Entry(
        "scurnn",
        "unitary matrix by the scaled Cayley transform",
        "Maduranga et al. 2019",
        "mnemoscope.cells.named:scurnn",
        cites=("maduranga2019",),
    ),
    Entry(
        "svd-rnn",
        "singular values within a margin of 1",
        "Vorontsov et al. 2017",
        "mnemoscope.cells.named:svd_rnn",
        cites=("vorontsov2017",),
    ),
    Entry(
        "exprnn",
        "orthogonal matrix by the exponential",
        "Lezcano-Casado & Martinez-Rubio 2019",
        "mnemoscope.cells.named:exprnn",
        cites=("lezcano2019",),
    ),
    Entry(
        "nnrnn",
        "non-normal matrix by its Schur form, eigenvalues near the circle",
        "Kerg et al. 2019; Kerg, Eq 3.5.1",
        "mnemoscope.cells.named:nnrnn",
        cites=("kerg2019",),
    ),
    Entry(
        "normal-rnn",
        "matrix that stays normal while it learns: its eigenvalues in an orthogonal basis",
        "Serre 2002, Theorem 3.3.1; Ganguli et al. 2008",
        "mnemoscope.cells.named:normal_rnn",
        cites=("serre2002", "ganguli2008", "lezcano2019"),
    ),
    Entry(
        "goru",
        "gated unit with an orthogonal matrix",
        "Jing et al. 2019",
        "mnemoscope.cells.named:goru",
        cites=("jing2019",),
    ),
    Entry(
        "episodic",
        "Elman cell, matrix by stored memories and which follows which",
        "Karuvally et al. 2023, Eq 11",
        "mnemoscope.cells.named:episodic",
        cites=("karuvally2023",),
    ),
    Entry(
        "memrnn",
        "Elman cell that attends to all of its past states",
        "Bahdanau et al. 2015; Kerg, section 4.4",
        "mnemoscope.memory.attention.named:memrnn",
        ("attention",),
        ("bahdanau2015", "kerg2020"),
    ),
    Entry(
        "memlstm",
        "LSTM that attends to all of its past outputs",
        "Bahdanau et al. 2015; Kerg, section 4.4",
        "mnemoscope.memory.attention.named:memlstm",
        ("attention",),
        ("bahdanau2015", "kerg2020"),
    ),
    Entry(
        "relrnn",
        "Elman cell that attends to its newest and its relevant states",
        "Kerg et al. 2020, Algorithm 1",
        "mnemoscope.memory.attention.named:relrnn",
        ("attention",),
        ("kerg2020",),
    ),
    Entry(
        "rellstm",
        "LSTM that attends to its newest and its relevant outputs",
        "Kerg et al. 2020, Algorithm 1",
        "mnemoscope.memory.attention.named:rellstm",
        ("attention",),
        ("kerg2020",),
    ),
    Entry(
        "relgru",
        "GRU that attends to its newest and its relevant states, halved so that it stays bounded",
        "Kerg et al. 2020, Algorithm 1",
        "mnemoscope.memory.attention.named:relgru",
        ("attention",),
        ("kerg2020", "cho2014"),
    ),
    Entry(
        "sab",
        "LSTM that attends to few of its stored states; the gradient goes far through them alone",
        "Ke et al. 2018",
        "mnemoscope.memory.attention.named:sab",
        ("attention",),
        ("ke2018", "kerg2020"),
    ),
    Entry(
        "ntm",
        "neural Turing machine: LSTM or feed-forward controller, slots are vectors",
        "Graves et al. 2014",
        "mnemoscope.memory.tape.named:ntm",
        ("tape",),
        ("graves2014", "collier2018"),
    ),
    Entry(
        "matntm",
        "neural Turing machine whose states and slots are matrices",
        "Renanse et al. 2021, Fig 1",
        "mnemoscope.memory.tape.named:matntm",
        ("tape", OWN_READOUT),
        ("renanse2021", "graves2014", "collier2018"),
    ),
    Entry(
        "echo-state",
        "fixed random reservoir with leak; only what reads it is learned",
        "Jang, Eq 22-26; Jaeger et al. 2007",
        "mnemoscope.cells:EchoState",
        cites=("jang", "jaeger2007", "sussillo2009"),
    ),
    Entry(
        "matrix-rnn",
        "H' = phi(U1^T X V1 + U2^T H V2 + B); hidden_size is rows times columns of the state",
        "Do et al. 2017; Renanse et al. 2021, Eq 6",
        "mnemoscope.cells.matrix.named:matrix_rnn",
        ("matrix",),
        ("do2017", "renanse2021"),
    ),
    Entry(
        "matrix-stack",
        "matrix RNNs on top of each other, the last of which is the output; hidden_size is rows times columns",
        "Renanse et al. 2021, Table 1",
        "mnemoscope.cells.matrix.named:stacked_matrix_rnn",
        ("matrix", OWN_READOUT),
        ("renanse2021", "do2017"),
    ),
    Entry(
        "matrix-lstm",
        "LSTM of matrices, every gate bilinear; hidden_size is rows times columns of the state",
        "Do et al. 2017",
        "mnemoscope.cells.matrix.named:matrix_lstm",
        ("matrix",),
        ("do2017", "hochreiter1997"),
    ),
    Entry(
        "matrix-gru",
        "GRU of matrices, every gate bilinear; hidden_size is rows times columns of the state",
        "after Do et al. 2017 and Cho et al. 2014",
        "mnemoscope.cells.matrix.named:matrix_gru",
        ("matrix",),
        ("do2017", "cho2014"),
    ),
    Entry(
        "mlstm",
        "keys and values in a matrix, with exponential gates: the mLSTM of xLSTM",
        "Beck et al. 2024, Eq 19-27",
        "mnemoscope.cells.matrix:MLSTM",
        ("matrix",),
        ("beck2024",),
    ),
    Entry(
        "gated-deltanet",
        "keys and values in a matrix that fades, and in which a new value replaces the old one of its key",
        "Yang et al. 2025, Eq 10",
        "mnemoscope.cells.matrix:GatedDeltaNet",
        ("matrix",),
        ("yang2025", "dao2024"),
    ),
)

tasks = Registry("task")
tasks.add(
    Entry(
        "flipflop",
        "n bits, each held at the sign of its last pulse",
        "Sussillo & Barak 2013; Jang, section 6",
        "mnemoscope.tasks:FlipFlop",
        ("discrete memory",),
        ("sussillo2013", "jang"),
    ),
    Entry(
        "copy",
        "recall 10 symbols after a delay",
        "Hochreiter & Schmidhuber 1997; Arjovsky et al. 2016",
        "mnemoscope.tasks:Copy",
        ("delayed recall",),
        ("hochreiter1997", "arjovsky2016"),
    ),
    Entry(
        "adding",
        "add the two marked numbers of a long sequence",
        "Hochreiter & Schmidhuber 1997",
        "mnemoscope.tasks:Adding",
        ("delayed recall",),
        ("hochreiter1997",),
    ),
    Entry(
        "transfer-copy",
        "recall 10 symbols after another delay than in training",
        "Hochreiter & Schmidhuber 1997; Kerg et al. 2020",
        "mnemoscope.tasks:TransferCopy",
        ("delayed recall", "transfer"),
        ("hochreiter1997", "kerg2020"),
    ),
    Entry(
        "denoise",
        "recall 10 symbols that were scattered among blanks",
        "Jing et al. 2019; Kerg, section 4.6.1",
        "mnemoscope.tasks:Denoise",
        ("delayed recall",),
        ("jing2019", "kerg2020"),
    ),
    Entry(
        "repeat-copy",
        "repeat the vectors that were shown, over and over",
        "Karuvally et al. 2023, section 9",
        "mnemoscope.tasks:RepeatCopy",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "compose-copy",
        "make each new vector of one element of each of the last ones",
        "Karuvally et al. 2023, section 10",
        "mnemoscope.tasks:ComposeCopy",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "binding",
        "go on with the sequence that any signed selection makes of the vectors shown; rule T1 to T4, or your own",
        "Karuvally et al. 2023, section 6",
        "mnemoscope.tasks:VariableBinding",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "bit-copy",
        "recall a sequence of random bit vectors, of random length",
        "Graves et al. 2014, section 4.1",
        "mnemoscope.tasks:BitCopy",
        ("bits", "external memory"),
        ("graves2014",),
    ),
    Entry(
        "matrix-copy",
        "recall a sequence of random bit matrices, of random length",
        "Renanse et al. 2021, section 6.1",
        "mnemoscope.tasks:MatrixCopy",
        ("bits", "external memory"),
        ("renanse2021", "graves2014"),
    ),
    Entry(
        "bit-repeat-copy",
        "recall a sequence of random bit vectors as often as is asked for, and mark the end",
        "Graves et al. 2014, section 4.2",
        "mnemoscope.tasks:BitRepeatCopy",
        ("bits", "external memory"),
        ("graves2014",),
    ),
    Entry(
        "associative-recall",
        "shown one item of a list of bit vectors again, recall the next",
        "Graves et al. 2014, section 4.3",
        "mnemoscope.tasks:AssociativeRecall",
        ("bits", "external memory"),
        ("graves2014",),
    ),
    Entry(
        "matrix-recall",
        "shown one item of a list of bit matrices again, recall the next",
        "Renanse et al. 2021, section 6.2",
        "mnemoscope.tasks:MatrixRecall",
        ("bits", "external memory"),
        ("renanse2021", "graves2014"),
    ),
    Entry(
        "smnist",
        "tell a handwritten digit that was shown pixel by pixel",
        "LeCun et al. 1998; Le et al. 2015",
        "mnemoscope.tasks:SequentialMNIST",
        ("classification", "data"),
        ("lecun1998", "le2015"),
    ),
    Entry(
        "psmnist",
        "tell a handwritten digit whose pixels were shown in a fixed random order",
        "LeCun et al. 1998; Le et al. 2015",
        "mnemoscope.tasks:PermutedMNIST",
        ("classification", "data"),
        ("lecun1998", "le2015"),
    ),
    Entry(
        "ptb",
        "predict the next character of the Penn Treebank",
        "Marcus et al. 1993; Mikolov et al. 2012",
        "mnemoscope.tasks:PennTreebank",
        ("language", "data"),
        ("marcus1993", "mikolov2012"),
    ),
)

lenses = Registry("lens")
lenses.add(
    Entry(
        "fixed-points",
        "all fixed points, their kinds and time constants, and whether the set is complete",
        "Sussillo & Barak 2013; Jang, Eq 1-13",
        "mnemoscope.analysis:find_fixed_points",
        ("dynamics",),
        ("sussillo2013", "jang"),
    ),
    Entry(
        "evolution",
        "fixed points followed over training, inputs or any parameter: where they appear, vanish and change stability",
        "Jang, section 6.1 and Fig 7",
        "mnemoscope.analysis:follow",
        ("dynamics",),
        ("jang", "sussillo2013"),
    ),
    Entry(
        "spectra",
        "eigenvalues, Schur form, departure from normality, growth of powers, Kreiss constant, pseudospectra",
        "Henrici 1962; Trefethen & Embree 2005; Kerg et al. 2019, Eq 3.4.1, Fig 3",
        "mnemoscope.analysis:spectrum",
        ("matrices",),
        ("henrici1962", "trefethen2005", "kerg2019"),
    ),
    Entry(
        "transients",
        "norm and spread of an ensemble of states that starts on a sphere, step by step",
        "Kerg et al. 2019, Fig 1b",
        "mnemoscope.analysis:transients",
        ("dynamics",),
        ("kerg2019",),
    ),
    Entry(
        "fisher",
        "Fisher memory: how much of each past signal a linear, matrix or queue network holds under noise, exactly",
        "Ganguli et al. 2008; Kerg, 2.6 and 3.4.2; Renanse et al. 2021, sections 2 and 3",
        "mnemoscope.analysis:fisher_memory",
        ("capacity",),
        ("ganguli2008", "kerg2019", "renanse2021"),
    ),
    Entry(
        "fisher-along",
        "Fisher memory of any network along its trajectories, for small signals and small noise",
        "Ganguli et al. 2008",
        "mnemoscope.analysis:fisher_along",
        ("capacity",),
        ("ganguli2008",),
    ),
    Entry(
        "memory-capacity",
        "how well a linear readout recovers each past signal; in closed form or, of any cell, measured",
        "Jaeger 2001",
        "mnemoscope.analysis:memory_capacity",
        ("capacity",),
        ("jaeger2001",),
    ),
    Entry(
        "design",
        "the network that holds most of its past signals under a norm and a spectral radius, as far as a search finds",
        "Ganguli et al. 2008",
        "mnemoscope.analysis:design_memory",
        ("capacity",),
        ("ganguli2008",),
    ),
    Entry(
        "recall",
        "the sequence in which an episodic memory recalls what it has stored, and whether it is the one of Phi",
        "Karuvally et al. 2023, Eq 2-8",
        "mnemoscope.analysis:recall",
        ("episodic memory",),
        ("karuvally2023",),
    ),
    Entry(
        "memory-kinds",
        "which fixed points of an episodic memory are stored, reversed, mixtures, unrelated or metastable",
        "Karuvally et al. 2023, sections 1 and 2",
        "mnemoscope.analysis:classify_memories",
        ("episodic memory",),
        ("karuvally2023",),
    ),
    Entry(
        "memory-load",
        "how many random patterns an episodic memory recalls from corrupted starts; measured",
        "Hopfield 1982; Karuvally et al. 2023",
        "mnemoscope.analysis:memory_load",
        ("episodic memory", "capacity"),
        ("hopfield1982", "karuvally2023"),
    ),
    Entry(
        "basin",
        "from how many flipped signs a stored memory is found again",
        "Hopfield 1982; Karuvally et al. 2023",
        "mnemoscope.analysis:basin",
        ("episodic memory", "capacity"),
        ("hopfield1982", "karuvally2023"),
    ),
    Entry(
        "energy",
        "what falls along trajectories of episodic memories and Elman networks, whether it must, and where it does not",
        "Karuvally et al. 2023, Eq 3; its supplement, Eq 25",
        "mnemoscope.analysis:energy_report",
        ("dynamics",),
        ("karuvally2023",),
    ),
    Entry(
        "variables",
        "which variable a network holds in which direction at which time, decoded and tested by interventions",
        "Karuvally et al. 2023, sections 5 to 11",
        "mnemoscope.analysis:variable_memories",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "cycles",
        "limit cycles of any period and stability, their Floquet multipliers, and whether the set is complete",
        "Jang, section 9.1",
        "mnemoscope.analysis:find_cycles",
        ("dynamics",),
        ("jang", "sussillo2013"),
    ),
    Entry(
        "lyapunov",
        "Lyapunov exponents with their errors, at rest or driven: chaos, its dimension, the echo state property",
        "Benettin et al. 1980; Shimada & Nagashima 1979; Geist et al. 1990; Kaplan & Yorke 1979",
        "mnemoscope.analysis:lyapunov_spectrum",
        ("dynamics",),
        ("benettin1980", "shimada1979", "geist1990", "kaplan1979"),
    ),
    Entry(
        "attractors",
        "where a network goes if left alone: points, cycles, circles, slow manifolds or chaos, with their basins",
        "Jang, section 9.1",
        "mnemoscope.analysis:attractors",
        ("dynamics",),
        ("jang", "benettin1980"),
    ),
    Entry(
        "attention",
        "what a network attends to at every step, which states it keeps and why, sparsity and dependency depth",
        "Kerg, 4.4 and Fig 1",
        "mnemoscope.analysis:attention_of",
        ("attention",),
        ("kerg2020",),
    ),
    Entry(
        "gradients",
        "what of a loss reaches back to each step, by all ways, before and after training",
        "Kerg, 4.7 and Fig 2",
        "mnemoscope.analysis:gradients_of",
        ("gradients",),
        ("kerg2020",),
    ),
    Entry(
        "gradients-by-part",
        "what of a loss reaches back to each part of the state: of a Turing machine its controller, memory and heads",
        "Jang, section 9.2",
        "mnemoscope.analysis:gradients_by_part",
        ("gradients", "tape"),
        ("jang", "graves2014"),
    ),
    Entry(
        "tape",
        "what a Turing machine holds on its tape, and where its heads write and read at every step",
        "Graves et al. 2014, Fig 6; Renanse et al. 2021, Fig 6 and 8",
        "mnemoscope.analysis:tape_of",
        ("tape",),
        ("graves2014", "renanse2021"),
    ),
)

studies = Registry("study")
studies.add(
    Entry(
        "flipflop-cube",
        "the 27 fixed points of a trained 3-bit flip-flop: corners, edges, faces and centre of a cube",
        "Jang, section 6 and Fig 6",
        "mnemoscope.studies.flipflop_cube:STUDY",
        ("dynamics",),
        ("jang", "sussillo2013"),
    ),
    Entry(
        "flipflop-3",
        "a reservoir taught to hold three bits by FORCE: memories at the corners, saddles between them",
        "Jang, section 6 and Fig 5, 6",
        "mnemoscope.studies.flipflop_reservoir:THREE",
        ("dynamics",),
        ("jang", "sussillo2009", "sussillo2013"),
    ),
    Entry(
        "flipflop-4",
        "a reservoir taught to hold four bits by FORCE: memories at the corners, saddles between them",
        "Jang, section 7 and Fig 8",
        "mnemoscope.studies.flipflop_reservoir:FOUR",
        ("dynamics",),
        ("jang", "sussillo2009", "sussillo2013"),
    ),
    Entry(
        "flipflop-evolution",
        "the fixed points of a reservoir followed through its lesson, bifurcation by bifurcation",
        "Jang, section 6.1 and Fig 7",
        "mnemoscope.studies.flipflop_evolution:STUDY",
        ("dynamics",),
        ("jang", "sussillo2009", "sussillo2013"),
    ),
    Entry(
        "flipflop-transfer",
        "how the 16 memories of a 4-bit flip-flop lie that was taught from nothing, or from a 3-bit one",
        "Jang, sections 7 and 7.1, Fig 8",
        "mnemoscope.studies.flipflop_transfer:STUDY",
        ("dynamics",),
        ("jang", "sussillo2009"),
    ),
    Entry(
        "flipflop-noise",
        "error and surviving memories of 4-bit flip-flops with noise on their recurrent weights",
        "Jang, section 8 and Fig 9",
        "mnemoscope.studies.flipflop_noise:STUDY",
        ("dynamics",),
        ("jang", "sussillo2009"),
    ),
    Entry(
        "nonlinear-capacity",
        "what a finite dynamic range does to Fisher memory and to linear memory capacity",
        "Renanse, section 2.5",
        "mnemoscope.studies.nonlinear_capacity:STUDY",
        ("memory capacity",),
        ("renanse2021", "ganguli2008", "jaeger2001"),
    ),
    Entry(
        "copy-200",
        "who learns to copy ten symbols after 200 steps, and how fast",
        "Kerg, Fig 2 and A.1 Table 1",
        "mnemoscope.studies.copy_200:STUDY",
        ("delayed recall",),
        ("kerg2019",),
    ),
    Entry(
        "copy-table",
        "copying after delays of 100 to 2,000 steps",
        "Kerg, B.4 Table 2",
        "mnemoscope.studies.copy_table:STUDY",
        ("delayed recall",),
        ("kerg2020",),
    ),
    Entry(
        "transfer-copy",
        "learn to copy after 100 steps, be tested after up to 5,000",
        "Kerg, chapter 4 Table 1",
        "mnemoscope.studies.transfer_copy:STUDY",
        ("delayed recall", "attention"),
        ("kerg2020",),
    ),
    Entry(
        "denoise",
        "symbols scattered among 100 to 2,000 steps are recalled",
        "Kerg, chapter 4 Table 2",
        "mnemoscope.studies.denoise:STUDY",
        ("delayed recall", "attention"),
        ("kerg2020",),
    ),
    Entry(
        "primacy-bias",
        "what a screened network keeps before it has learned: the first states, whatever they are",
        "Kerg, Algorithm 1",
        "mnemoscope.studies.primacy_bias:STUDY",
        ("attention",),
        ("kerg2020",),
    ),
    Entry(
        "screening-tradeoff",
        "how the sizes of a screen change gradients and what is learned",
        "Kerg, B.3 Fig 1",
        "mnemoscope.studies.screening_tradeoff:STUDY",
        ("attention", "gradients"),
        ("kerg2020",),
    ),
    Entry(
        "minigrid",
        "agents that attend to all or to few of their past states, taught in small rooms and tested in large ones",
        "Kerg, B.2 Table 1",
        "mnemoscope.studies.minigrid:STUDY",
        ("attention", "reinforcement learning"),
        ("kerg2020", "schulman2016", "schulman2017", "chevalier2018"),
    ),
    Entry(
        "attention-gradients",
        "what of a loss reaches back, with and without attention, before and after training",
        "Kerg, section 4.7 and Fig 2",
        "mnemoscope.studies.attention_gradients:STUDY",
        ("attention", "gradients"),
        ("kerg2020",),
    ),
    Entry(
        "ptb-pmnist-attention",
        "permuted MNIST and the Penn Treebank by networks that attend to their past",
        "Kerg, chapter 4 Table 3",
        "mnemoscope.studies.ptb_pmnist_attention:STUDY",
        ("attention", "long sequences"),
        ("kerg2020",),
    ),
    Entry(
        "psmnist",
        "digits from 784 pixels in a fixed random order",
        "Kerg, Fig 2, A.1 Table 2 and chapter 4 Table 3",
        "mnemoscope.studies.psmnist:STUDY",
        ("long sequences",),
        ("kerg2019", "kerg2020"),
    ),
    Entry(
        "ptb-bpc",
        "bits per character on the Penn Treebank",
        "Kerg, Tables 1 and 3",
        "mnemoscope.studies.ptb_bpc:STUDY",
        ("long sequences",),
        ("kerg2019",),
    ),
    Entry(
        "gamma-clamp",
        "nnRNN with eigenvalues of fixed modulus on the Penn Treebank",
        "Kerg, A.6 Table 6",
        "mnemoscope.studies.ptb_bpc:GAMMA_CLAMP",
        ("spectrum",),
        ("kerg2019",),
    ),
    Entry(
        "gradient-norms",
        "gradients of nnRNN through time and through training",
        "Kerg, A.6 Fig 3",
        "mnemoscope.studies.gradient_norms:STUDY",
        ("gradients",),
        ("kerg2019",),
    ),
    Entry(
        "learned-schur",
        "rotations and non-normal parts that nnRNN learns on three tasks",
        "Kerg, 3.6.3 Fig 3 and A.5 Fig 2",
        "mnemoscope.studies.learned_schur:STUDY",
        ("spectrum",),
        ("kerg2019",),
    ),
    Entry(
        "fisher-table",
        "Fisher information that feed-forward chains hold in all; five of twelve printed values are off",
        "Kerg, A.2 Table 5",
        "mnemoscope.studies.fisher_table:STUDY",
        ("capacity",),
        ("kerg2019", "ganguli2008"),
    ),
    Entry(
        "fisher-curves",
        "Fisher memory curves of feed-forward chains, with and without a diagonal",
        "Kerg, 3.4.2 and Fig 1c",
        "mnemoscope.studies.fisher_curves:STUDY",
        ("capacity",),
        ("kerg2019", "ganguli2008"),
    ),
    Entry(
        "fisher-delay-line",
        "the curve of a delay line, and how far random triangular matrices can fall below it",
        "Kerg, 3.4.2, Prop 3.4.1 and A.2",
        "mnemoscope.studies.fisher_delay_line:STUDY",
        ("capacity",),
        ("kerg2019", "ganguli2008"),
    ),
    Entry(
        "matrix-capacity",
        "matrix networks: the published capacity, below 1, beside the exact one, which is 1",
        "Renanse et al. 2021, Fig 2 and Theorems 1-3",
        "mnemoscope.studies.matrix_capacity:STUDY",
        ("capacity",),
        ("renanse2021", "ganguli2008"),
    ),
    Entry(
        "queue-capacity",
        "matrix networks with a queue of past states: what is artefact, and what they hold",
        "Renanse et al. 2021, Fig 3-4 and Theorem 4",
        "mnemoscope.studies.queue_capacity:STUDY",
        ("capacity",),
        ("renanse2021", "ganguli2008"),
    ),
    Entry(
        "matrix-copy",
        "who learns to give back up to 20 random matrices: a machine with a tape, and a Matrix RNN without",
        "Renanse et al. 2021, section 6.1, Table 1 and Fig 5",
        "mnemoscope.studies.matrix_copy:STUDY",
        ("external memory",),
        ("renanse2021", "graves2014"),
    ),
    Entry(
        "matrix-recall",
        "who learns which item of a list of matrices came after the one that is shown again",
        "Renanse et al. 2021, section 6.2, Table 1, Fig 7 and 9",
        "mnemoscope.studies.matrix_recall:STUDY",
        ("external memory",),
        ("renanse2021", "graves2014"),
    ),
    Entry(
        "ntm-copy",
        "after how many iterations a neural Turing machine gives back up to 20 random vectors",
        "Graves et al. 2014, section 4.1",
        "mnemoscope.studies.ntm_copy:STUDY",
        ("external memory",),
        ("graves2014", "collier2018"),
    ),
    Entry(
        "length-generalisation",
        "learn to copy up to 20 matrices or vectors, be tested with up to 120",
        "Renanse et al. 2021, Fig 9; Graves et al. 2014, section 4.1",
        "mnemoscope.studies.length_generalisation:STUDY",
        ("external memory",),
        ("renanse2021", "graves2014"),
    ),
    Entry(
        "controller-comparison",
        "neural Turing machines that differ in their controller alone: Matrix RNN or LSTM, LSTM or feed-forward",
        "Renanse et al. 2021, section 7; Graves et al. 2014, section 4.1",
        "mnemoscope.studies.controller_comparison:STUDY",
        ("external memory",),
        ("renanse2021", "graves2014"),
    ),
    Entry(
        "repeat-copy",
        "variables of trained networks that repeat what they were shown, read off the weights and tested",
        "Karuvally et al. 2023, section 9",
        "mnemoscope.studies.variable_binding:REPEAT_COPY",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "compose-copy",
        "variables of trained networks that make new vectors of old ones",
        "Karuvally et al. 2023, section 10",
        "mnemoscope.studies.variable_binding:COMPOSE_COPY",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "binding-table",
        "eigenvalues of trained networks beside the theory's, by task, size and weight decay",
        "Karuvally et al. 2023, Table 1",
        "mnemoscope.studies.binding_table:STUDY",
        ("variable binding",),
        ("karuvally2023",),
    ),
    Entry(
        "sequence-recall",
        "stored memories one after the other: mixed by the map, recalled where the delayed copy waits",
        "Karuvally et al. 2023, Eq 2-11",
        "mnemoscope.studies.sequence_recall:STUDY",
        ("episodic memory",),
        ("karuvally2023",),
    ),
    Entry(
        "energy-descent",
        "which printed energy of the episodic memory rises on how many steps, and the corrected one on none",
        "Karuvally et al. 2023, Eq 3, and notes on its energy, Eq 25-47",
        "mnemoscope.studies.energy_descent:STUDY",
        ("energy",),
        ("karuvally2023",),
    ),
)
