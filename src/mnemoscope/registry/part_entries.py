"""Parts of networks, optimisers and searches by name, with the works to cite for them.

The columns are described in `table.py`.
"""

from mnemoscope.registry.entry import Registry
from mnemoscope.registry.table import read_entries

OPTIMISERS = """
adam | steps divided by a running root mean square of gradients, with momentum
    Kingma & Ba 2015 | torch.optim:Adam | kingma2015
adamw | Adam with weight decay decoupled from the gradient
    Loshchilov & Hutter 2019 | torch.optim:AdamW | loshchilov2019 kingma2015
rmsprop | steps divided by a running root mean square of gradients
    Tieleman & Hinton 2012 | torch.optim:RMSprop | tieleman2012
"""

SEARCHES = """
grid | every combination of the values
    mnemoscope | mnemoscope.sweeps.methods:METHODS[grid] | mnemoscope
random | values drawn at random, independent of each other
    Bergstra & Bengio 2012 | mnemoscope.sweeps.methods:METHODS[random] | bergstra2012
tpe | Optuna's tree-structured Parzen estimator
    Bergstra et al. 2011; Akiba et al. 2019 | mnemoscope.sweeps.methods:METHODS[tpe] | bergstra2011 akiba2019
gp | Optuna's Gaussian processes
    Snoek et al. 2012; Akiba et al. 2019 | mnemoscope.sweeps.methods:METHODS[gp] | snoek2012 akiba2019
cma-es | Optuna's covariance matrix adaptation, for two or more numbers
    Hansen & Ostermeier 2001; Akiba et al. 2019 | mnemoscope.sweeps.methods:METHODS[cma-es] | hansen2001 akiba2019
qmc | Optuna's scrambled Sobol sequence, more even than random
    Sobol' 1967; Akiba et al. 2019 | mnemoscope.sweeps.methods:METHODS[qmc] | sobol1967 akiba2019
"""

PARTS = """
exponential | orthogonal or unitary matrix, the exponential of a skew one
    Lezcano-Casado & Martínez-Rubio 2019 | mnemoscope.connectivity:Exponential | lezcano2019 | matrix
cayley | orthogonal or unitary matrix, the scaled Cayley transform of a skew one
    Helfrich et al. 2018 | mnemoscope.connectivity:Cayley | helfrich2018 | matrix
householder | orthogonal matrix, a product of reflections
    Mhammedi et al. 2017 | mnemoscope.connectivity:Householder | mhammedi2017 | matrix
givens | orthogonal or unitary matrix, layers of rotations of pairs
    Jing et al. 2017 | mnemoscope.connectivity:Givens | jing2017 | matrix
fourier | unitary matrix of phases, reflections and Fourier transforms
    Arjovsky et al. 2016 | mnemoscope.connectivity:Fourier | arjovsky2016 | matrix
schur | matrix in Schur form: rotations and a triangle in an orthogonal basis
    Kerg et al. 2019 | mnemoscope.connectivity:Schur | kerg2019 | matrix
singular | matrix whose singular values stay within a margin of 1
    Vorontsov et al. 2017 | mnemoscope.connectivity:SVD | vorontsov2017 | matrix
normal | matrix that commutes with its transpose: eigenvalues in an orthogonal basis
    Serre 2002, Theorem 3.3.1 | mnemoscope.connectivity:Normal | serre2002 | matrix
low-rank-matrix | matrix of rank R as a product of two thin ones, with or without a random part
    Mastrogiuseppe & Ostojic 2018 | mnemoscope.connectivity:LowRank | mastrogiuseppe2018 | matrix
modrelu | nonlinearity that changes the modulus by a learned bias
    Arjovsky et al. 2016, Eq 8 | mnemoscope.cells.nonlinearities:ModReLU | arjovsky2016 | nonlinearity
full-history | attention to all past states
    Bahdanau et al. 2015 | mnemoscope.memory.attention:FullHistory | bahdanau2015 | past
relevance-screen | attention to the newest and the most relevant states
    Kerg et al. 2020, Algorithm 1 | mnemoscope.memory.attention:RelevanceScreen | kerg2020 | past
sparse-backtracking | attention to a few of the states stored at regular intervals
    Ke et al. 2018 | mnemoscope.memory.attention:SparseBacktracking | ke2018 | past
additive | alignment of query and key by a tanh layer
    Bahdanau et al. 2015 | mnemoscope.memory.attention:Additive | bahdanau2015 | alignment
scaled-dot | alignment of query and key by their scaled product
    Vaswani et al. 2017 | mnemoscope.memory.attention:ScaledDot | vaswani2017 | alignment
separable | alignment as a sum of a term of the query and a term of the key
    Ke et al. 2018 | mnemoscope.memory.attention:Separable | ke2018 | alignment
tape | memory that a controller writes and reads
    Graves et al. 2014 | mnemoscope.memory.tape:TuringMachine | graves2014 | memory
context-norm | each feature normalised over the objects of a problem
    Webb et al. 2020 | mnemoscope.relational:ContextNorm | webb2020 | normalisation
"""

optimisers = Registry("optimiser", read_entries(OPTIMISERS))
searches = Registry("search", read_entries(SEARCHES))
parts = Registry("part", read_entries(PARTS))
