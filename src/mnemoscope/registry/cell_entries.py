"""The cells by name: each is one step of a recurrent network. The columns are described in `table.py`."""

from mnemoscope.registry.entry import Registry
from mnemoscope.registry.table import read_entries

OWN_READOUT = "own readout"
"""Tag of cells that take an `output_size`, so that no linear readout follows them."""

CELLS = """
elman | h' = phi(V h + U x + b), any recurrent matrix and nonlinearity
    Elman 1990 | mnemoscope.cells:Elman | elman1990
gru | gated recurrent unit, torch.nn.GRU's form
    Cho et al. 2014 | mnemoscope.cells:GRU | cho2014
lstm | long short-term memory, torch.nn.LSTM's form
    Hochreiter & Schmidhuber 1997 | mnemoscope.cells:LSTM | hochreiter1997
h-detach | LSTM whose gradient skips h at a random half of the steps
    Kanuparthi et al. 2019 | mnemoscope.cells:HDetach | kanuparthi2019 hochreiter1997
diagonal-gru | GRU whose units do not see one another; runs in parallel over time by Newton's method
    Danieli et al. 2026 | mnemoscope.cells:DiagonalGRU | danieli2026 cho2014
diagonal-lstm | LSTM whose units do not see one another, with coupled gates and peepholes; runs in parallel over time
    Danieli et al. 2026 | mnemoscope.cells:DiagonalLSTM | danieli2026 hochreiter1997
rnn | Elman cell with modReLU; unconstrained matrix, initialised from a normal distribution
    Kerg 2022, A.1 | mnemoscope.networks.recurrent:rnn | elman1990 kerg2019 kerg2022thesis
irnn | Elman cell with ReLU; unconstrained matrix, initialised to the identity
    Le et al. 2015 | mnemoscope.networks.recurrent:irnn | le2015
rnn-orth | Elman cell; unconstrained matrix, initialised to an orthogonal one
    Henaff et al. 2016 | mnemoscope.networks.recurrent:rnn_orth | henaff2016
eurnn | unitary matrix as layers of rotations (tunable, or arranged as in an FFT)
    Jing et al. 2017 | mnemoscope.networks.recurrent:eurnn | jing2017
ornn | orthogonal matrix as a product of m Householder reflections
    Mhammedi et al. 2017 | mnemoscope.networks.recurrent:ornn | mhammedi2017
urnn | unitary matrix as a product of phases, reflections and Fourier transforms
    Arjovsky et al. 2016 | mnemoscope.networks.recurrent:urnn | arjovsky2016
full-urnn | any unitary matrix, by Cayley steps or the exponential
    Wisdom et al. 2016 | mnemoscope.networks.recurrent:full_urnn | wisdom2016
scornn | orthogonal matrix by the scaled Cayley transform
    Helfrich et al. 2018 | mnemoscope.networks.recurrent:scornn | helfrich2018
scurnn | unitary matrix by the scaled Cayley transform
    Maduranga et al. 2019 | mnemoscope.networks.recurrent:scurnn | maduranga2019
svd-rnn | matrix whose singular values stay within a margin of 1
    Vorontsov et al. 2017 | mnemoscope.networks.recurrent:svd_rnn | vorontsov2017
exprnn | orthogonal matrix as the exponential of a skew-symmetric one
    Lezcano-Casado & Martínez-Rubio 2019 | mnemoscope.networks.recurrent:exprnn | lezcano2019
nnrnn | non-normal matrix in Schur form, with eigenvalues near the unit circle
    Kerg et al. 2019; Kerg 2022, Eq 3.5.1 | mnemoscope.networks.recurrent:nnrnn | kerg2019 kerg2022thesis
normal-rnn | matrix that stays normal during training: eigenvalues in an orthogonal basis
    Serre 2002, Theorem 3.3.1; Ganguli et al. 2008 | mnemoscope.networks.recurrent:normal_rnn
    serre2002 ganguli2008 lezcano2019
goru | gated unit with an orthogonal matrix
    Jing et al. 2019 | mnemoscope.networks.recurrent:goru | jing2019
episodic | Elman cell whose matrix holds stored memories and the order in which they follow each other
    Karuvally et al. 2023, Eq 11 | mnemoscope.networks.recurrent:episodic | karuvally2023
memrnn | Elman cell that attends to all of its past states
    Bahdanau et al. 2015; Kerg 2022, section 4.4 | mnemoscope.networks.attentive:memrnn
    bahdanau2015 kerg2020 kerg2022thesis | attention
memlstm | LSTM that attends to all of its past outputs
    Bahdanau et al. 2015; Kerg 2022, section 4.4 | mnemoscope.networks.attentive:memlstm
    bahdanau2015 kerg2020 kerg2022thesis | attention
relrnn | Elman cell that attends to its newest and its relevant states
    Kerg et al. 2020, Algorithm 1 | mnemoscope.networks.attentive:relrnn | kerg2020 | attention
rellstm | LSTM that attends to its newest and its relevant outputs
    Kerg et al. 2020, Algorithm 1 | mnemoscope.networks.attentive:rellstm | kerg2020 | attention
relgru | GRU that attends to its newest and its relevant states, halved so that it stays bounded
    Kerg et al. 2020, Algorithm 1 | mnemoscope.networks.attentive:relgru | kerg2020 cho2014 | attention
sab | LSTM that attends to a few of its stored states; only they carry long-range gradients
    Ke et al. 2018 | mnemoscope.networks.attentive:sab | ke2018 kerg2020 | attention
ntm | neural Turing machine: LSTM or feed-forward controller, slots are vectors
    Graves et al. 2014 | mnemoscope.networks.tape:ntm | graves2014 collier2018 | tape
matntm | neural Turing machine whose states and slots are matrices
    Renanse et al. 2021, Fig 1 | mnemoscope.networks.tape:matntm | renanse2021 graves2014 collier2018
    tape, own readout
echo-state | fixed random reservoir with leak; only the readout is trained
    Jang, Eq 22-26; Jaeger et al. 2007 | mnemoscope.cells:EchoState | jang jaeger2007 sussillo2009
leaky-rnn | leaky units in current or rate form, as in models of cortex; all weights are trained
    Song et al. 2016 | mnemoscope.cells:LeakyRNN | song2016
low-rank | leaky units whose matrix has a rank of one or a few
    Mastrogiuseppe & Ostojic 2018; Dubreuil et al. 2022 | mnemoscope.networks.leaky:low_rank
    mastrogiuseppe2018 dubreuil2022
matrix-rnn | H' = phi(U1^T X V1 + U2^T H V2 + B); hidden_size is rows times columns of the state
    Do et al. 2017; Renanse et al. 2021, Eq 6 | mnemoscope.networks.matrix:matrix_rnn | do2017 renanse2021 | matrix
matrix-stack | stacked matrix RNNs; the last layer is the output; hidden_size is rows times columns of the state
    Renanse et al. 2021, Table 1 | mnemoscope.networks.matrix:matrix_stack | renanse2021 do2017
    matrix, own readout
matrix-lstm | LSTM of matrices with bilinear gates; hidden_size is rows times columns of the state
    Do et al. 2017 | mnemoscope.networks.matrix:matrix_lstm | do2017 hochreiter1997 | matrix
matrix-gru | GRU of matrices with bilinear gates; hidden_size is rows times columns of the state
    after Do et al. 2017 and Cho et al. 2014 | mnemoscope.networks.matrix:matrix_gru | do2017 cho2014 | matrix
queue | matrix RNN that also sees a queue of its last states; hidden_size is rows times columns of the state
    Renanse et al. 2021, Eq 34-35 | mnemoscope.networks.matrix:queue | renanse2021 | matrix
slstm | LSTM with exponential gates and a normaliser: the sLSTM of xLSTM
    Beck et al. 2024, Eq 8-17 | mnemoscope.cells:SLSTM | beck2024
s4d | complex diagonal state-space model for each channel; constant decays
    Gu et al. 2022 | mnemoscope.cells.affine:S4D | gu2022 | affine
s5 | complex diagonal state-space model for all channels together; constant decays
    Smith et al. 2023 | mnemoscope.cells.affine:S5 | smith2023 | affine
lru | linear recurrent unit: complex numbers with constant decays
    Orvieto et al. 2023 | mnemoscope.cells.affine:LRU | orvieto2023 | affine
mingru | GRU whose gate does not see the state
    Feng et al. 2024 | mnemoscope.cells.affine:MinGRU | feng2024 | affine
minlstm | LSTM whose gates do not see the state
    Feng et al. 2024 | mnemoscope.cells.affine:MinLSTM | feng2024 | affine
rg-lru | real-gated linear recurrent unit of Griffin
    De et al. 2024 | mnemoscope.cells.affine:RGLRU | de2024 | affine
retnet | retention: a key-value matrix with constant decays that rotates with the position
    Sun et al. 2023 | mnemoscope.cells.affine:RetNet | sun2023 | affine
hgrn2 | key-value matrix whose keys are what its forget gates let go
    Qin et al. 2024 | mnemoscope.cells.affine:HGRN2 | qin2024 | affine
mamba | selective state-space model; state_size numbers per channel, each with its decay
    Gu & Dao 2024 | mnemoscope.cells.affine:Mamba | gu2024 | affine
mamba2 | selective state-space model; one decay per head, state_size numbers per output
    Dao & Gu 2024 | mnemoscope.cells.affine:Mamba2 | dao2024 | affine
gla | gated linear attention: a key-value matrix with one decay per key
    Yang et al. 2024 | mnemoscope.cells.affine:GLA | yang2024gla | affine
mlstm | key-value matrix with exponential gates: the mLSTM of xLSTM
    Beck et al. 2024, Eq 19-27 | mnemoscope.cells.affine:MLSTM | beck2024 | affine
deltanet | key-value matrix in which a new value replaces the old one of its key
    Yang et al. 2024; Schlag et al. 2021 | mnemoscope.cells.affine:DeltaNet
    yang2024delta schlag2021 grazzi2025 | affine
gated-deltanet | key-value matrix that decays, and in which a new value replaces the old one of its key
    Yang et al. 2025, Eq 10 | mnemoscope.cells.affine:GatedDeltaNet | yang2025 dao2024 | affine
deltaproduct | key-value matrix with several delta rules per input, whose product can rotate
    Siems et al. 2025 | mnemoscope.cells.affine:DeltaProduct | siems2025 grazzi2025 | affine
kda | Kimi Delta Attention: the gated delta rule with one decay per key
    Kimi Team 2025 | mnemoscope.cells.affine:KDA | kimi2025 yang2025 | affine
rwkv7 | time mixing of RWKV-7: one decay and one learning rate per key
    Peng et al. 2025 | mnemoscope.cells.affine:RWKV7 | peng2025 | affine
blocks | layers of an affine family or the slstm, each with norm, short convolution, gate and residual connection
    mnemoscope, after the source of its family | mnemoscope.networks.layered:blocks | mnemoscope | blocks
causal-transformer | layers of causal attention to all past inputs: the baseline whose memory grows
    Vaswani et al. 2017; Su et al. 2024 | mnemoscope.networks.layered:causal_transformer
    vaswani2017 su2024 | attention
"""

cells = Registry("cell", read_entries(CELLS))
