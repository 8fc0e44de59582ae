"""What networks are made of, trained by and searched by, and whom to cite for it: matrices, pasts, optimisers, ..."""

from mnemoscope.registry.entry import Entry, Registry

optimisers = Registry("optimiser")
optimisers.add(
    Entry(
        "adam",
        "steps divided by a running root mean square of gradients, with momentum",
        "Kingma & Ba 2015",
        "torch.optim:Adam",
        cites=("kingma2015",),
    ),
    Entry(
        "adamw",
        "Adam with weight decay that is no part of the gradient",
        "Loshchilov & Hutter 2019",
        "torch.optim:AdamW",
        cites=("loshchilov2019", "kingma2015"),
    ),
    Entry(
        "rmsprop",
        "steps divided by a running root mean square of gradients",
        "Tieleman & Hinton 2012",
        "torch.optim:RMSprop",
        cites=("tieleman2012",),
    ),
)

searches = Registry("search")
searches.add(
    *(
        Entry(name, summary, source, f"mnemoscope.sweeps.methods:METHODS[{name}]", (), cites)
        for name, summary, source, cites in (
            ("grid", "every combination of the values", "mnemoscope", ("mnemoscope",)),
            ("random", "values drawn at random, independent of each other", "Bergstra & Bengio 2012",
             ("bergstra2012",)),
            ("tpe", "Optuna's tree-structured Parzen estimator", "Bergstra et al. 2011; Akiba et al. 2019",
             ("bergstra2011", "akiba2019")),
            ("gp", "Optuna's Gaussian processes", "Snoek et al. 2012; Akiba et al. 2019", ("snoek2012", "akiba2019")),
            ("cma-es", "Optuna's covariance matrix adaptation, for two or more numbers",
             "Hansen & Ostermeier 2001; Akiba et al. 2019", ("hansen2001", "akiba2019")),
            ("qmc", "Optuna's scrambled Sobol sequence, more even than random", "Sobol 1967; Akiba et al. 2019",
             ("sobol1967", "akiba2019")),
        )
    )
)  # fmt: skip

parts = Registry("part")
parts.add(
    Entry(
        "exponential",
        "orthogonal or unitary matrix, the exponential of a skew one",
        "Lezcano-Casado & Martinez-Rubio 2019",
        "mnemoscope.connectivity:Exponential",
        ("matrix",),
        ("lezcano2019",),
    ),
    Entry(
        "cayley",
        "orthogonal or unitary matrix, the scaled Cayley transform of a skew one",
        "Helfrich et al. 2018",
        "mnemoscope.connectivity:Cayley",
        ("matrix",),
        ("helfrich2018",),
    ),
    Entry(
        "householder",
        "orthogonal matrix, a product of reflections",
        "Mhammedi et al. 2017",
        "mnemoscope.connectivity:Householder",
        ("matrix",),
        ("mhammedi2017",),
    ),
    Entry(
        "givens",
        "orthogonal or unitary matrix, layers of rotations of pairs",
        "Jing et al. 2017",
        "mnemoscope.connectivity:Givens",
        ("matrix",),
        ("jing2017",),
    ),
    Entry(
        "fourier",
        "unitary matrix of phases, reflections and Fourier transforms",
        "Arjovsky et al. 2016",
        "mnemoscope.connectivity:Fourier",
        ("matrix",),
        ("arjovsky2016",),
    ),
    Entry(
        "schur",
        "matrix by its Schur form: rotations and a triangle in an orthogonal basis",
        "Kerg et al. 2019",
        "mnemoscope.connectivity:Schur",
        ("matrix",),
        ("kerg2019",),
    ),
    Entry(
        "singular",
        "matrix whose singular values stay within a margin of 1",
        "Vorontsov et al. 2017",
        "mnemoscope.connectivity:SVD",
        ("matrix",),
        ("vorontsov2017",),
    ),
    Entry(
        "normal",
        "matrix that commutes with its transpose: eigenvalues in an orthogonal basis",
        "Serre 2002, Theorem 3.3.1",
        "mnemoscope.connectivity:Normal",
        ("matrix",),
        ("serre2002",),
    ),
    Entry(
        "modrelu",
        "nonlinearity that shortens or lengthens by a learned bias",
        "Arjovsky et al. 2016, Eq 8",
        "mnemoscope.cells.nonlinearities:ModReLU",
        ("nonlinearity",),
        ("arjovsky2016",),
    ),
    Entry(
        "full-history",
        "attention to all past states",
        "Bahdanau et al. 2015",
        "mnemoscope.memory.attention:FullHistory",
        ("past",),
        ("bahdanau2015",),
    ),
    Entry(
        "relevance-screen",
        "attention to the newest states and those that were relevant",
        "Kerg et al. 2020, Algorithm 1",
        "mnemoscope.memory.attention:RelevanceScreen",
        ("past",),
        ("kerg2020",),
    ),
    Entry(
        "sparse-backtracking",
        "attention to few of the states that are stored every so many steps",
        "Ke et al. 2018",
        "mnemoscope.memory.attention:SparseBacktracking",
        ("past",),
        ("ke2018",),
    ),
    Entry(
        "additive",
        "alignment of query and key by a layer of tanh",
        "Bahdanau et al. 2015",
        "mnemoscope.memory.attention:Additive",
        ("alignment",),
        ("bahdanau2015",),
    ),
    Entry(
        "scaled-dot",
        "alignment of query and key by their product",
        "Vaswani et al. 2017",
        "mnemoscope.memory.attention:ScaledDot",
        ("alignment",),
        ("vaswani2017",),
    ),
    Entry(
        "separable",
        "alignment that is a sum of what the query and the key give",
        "Ke et al. 2018",
        "mnemoscope.memory.attention:Separable",
        ("alignment",),
        ("ke2018",),
    ),
    Entry(
        "tape",
        "memory that a controller writes to and reads from",
        "Graves et al. 2014",
        "mnemoscope.memory.tape:TuringMachine",
        ("memory",),
        ("graves2014",),
    ),
    Entry(
        "context-norm",
        "each feature normalised over the objects of a problem",
        "Webb et al. 2020",
        "mnemoscope.relational:ContextNorm",
        ("normalisation",),
        ("webb2020",),
    ),
)
