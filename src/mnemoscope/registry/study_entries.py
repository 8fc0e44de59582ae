"""The studies by name: each reproduces a published table, figure or claim. The columns are described in `table.py`."""

from mnemoscope.registry.entry import Registry
from mnemoscope.registry.table import read_entries

STUDIES = """
flipflop-cube | the 27 fixed points of a trained 3-bit flip-flop: corners, edges, faces and centre of a cube
    Jang, section 6 and Fig 6 | mnemoscope.studies.jang.flipflop_cube:STUDY | jang sussillo2013 | dynamics
flipflop-3 | a reservoir trained by FORCE to hold three bits: memories at the corners, saddles between them
    Jang, section 6 and Fig 5, 6 | mnemoscope.studies.jang.flipflop_reservoir:THREE | jang sussillo2009 sussillo2013
    dynamics
flipflop-4 | a reservoir trained by FORCE to hold four bits: memories at the corners, saddles between them
    Jang, section 7 and Fig 8 | mnemoscope.studies.jang.flipflop_reservoir:FOUR | jang sussillo2009 sussillo2013
    dynamics
flipflop-evolution | fixed points of a reservoir tracked through its training, bifurcation by bifurcation
    Jang, section 6.1 and Fig 7 | mnemoscope.studies.jang.flipflop_evolution:STUDY | jang sussillo2009 sussillo2013
    dynamics
flipflop-homoclinic | orbits that leave the origin of a reservoir after 700 steps of training
    Jang, section 6.1 and Fig 7c | mnemoscope.studies.jang.homoclinic:STUDY | jang sussillo2009 | dynamics
flipflop-transfer | geometry of the 16 memories of a 4-bit flip-flop trained from scratch, or from a 3-bit one
    Jang, sections 7 and 7.1, Fig 8 | mnemoscope.studies.jang.flipflop_transfer:STUDY | jang sussillo2009 | dynamics
flipflop-noise | error and surviving memories of 4-bit flip-flops with noise on their recurrent weights
    Jang, section 8 and Fig 9 | mnemoscope.studies.jang.flipflop_noise:STUDY | jang sussillo2009 | dynamics
worked-examples | an example in the plane and the derivatives of the speed q, as printed and as computed
    Jang, sections 3, 3.1 and 4 | mnemoscope.studies.jang.worked_examples:STUDY | jang sussillo2013 | dynamics
jang-methods | minima of the speed q by first and by second order, and the updates of FORCE as printed
    Jang, sections 3 and 10.2 | mnemoscope.studies.jang.methods:STUDY | jang sussillo2009 sussillo2013 | dynamics
nonlinear-capacity | effect of a finite dynamic range on Fisher memory and on linear memory capacity
    Renanse et al. 2021, section 2.5 | mnemoscope.studies.renanse2021.nonlinear_capacity:STUDY
    renanse2021 ganguli2008 jaeger2001 | memory capacity
copy-200 | which networks learn to copy ten symbols after 200 steps, and how fast
    Kerg 2022, Fig 2 and A.1 Table 1 | mnemoscope.studies.kerg2022.copy_200:STUDY | kerg2019 kerg2022thesis
    delayed recall
copy-table | copying after delays of 100 to 2,000 steps
    Kerg 2022, B.4 Table 2 | mnemoscope.studies.kerg2022.copy_table:STUDY | kerg2020 kerg2022thesis | delayed recall
transfer-copy | train to copy after 100 steps, test after up to 5,000
    Kerg 2022, chapter 4 Table 1 | mnemoscope.studies.kerg2022.transfer_copy:STUDY | kerg2020 kerg2022thesis
    delayed recall, attention
denoise | recall of symbols scattered among 100 to 2,000 steps
    Kerg 2022, chapter 4 Table 2 | mnemoscope.studies.kerg2022.denoise:STUDY | kerg2020 kerg2022thesis
    delayed recall, attention
primacy-bias | which states a screened network keeps before training: the first ones, whatever they are
    Kerg 2022, Algorithm 1 | mnemoscope.studies.kerg2022.primacy_bias:STUDY | kerg2020 kerg2022thesis | attention
screening-tradeoff | how the sizes of a relevance screen change gradients and learning
    Kerg 2022, B.3 Fig 1 | mnemoscope.studies.kerg2022.screening_tradeoff:STUDY | kerg2020 kerg2022thesis
    attention, gradients
minigrid | agents that attend to all or a few of their past states, trained in small rooms and tested in large ones
    Kerg 2022, B.2 Table 1 | mnemoscope.studies.kerg2022.minigrid:STUDY
    kerg2020 schulman2016 schulman2017 chevalier2018 kerg2022thesis | attention, reinforcement learning
attention-gradients | how much of a loss reaches back with and without attention, before and after training
    Kerg 2022, section 4.7 and Fig 2 | mnemoscope.studies.kerg2022.attention_gradients:STUDY | kerg2020 kerg2022thesis
    attention, gradients
attention-memory | how the memory of training grows with the length of a sequence, with and without attention
    Kerg 2022, section 4.7 and Fig 2 | mnemoscope.studies.kerg2022.attention_memory:STUDY
    kerg2020 ke2018 kerg2022thesis | attention
attention-theory | gradients of networks with attention as sums over paths, and lower bounds on them
    Kerg 2022, 4.4, B.1 | mnemoscope.studies.kerg2022.attention_theory:STUDY | kerg2020 kerg2022thesis
    attention, gradients
ptb-pmnist-attention | networks that attend to their past, on permuted MNIST and the Penn Treebank
    Kerg 2022, chapter 4 Table 3 | mnemoscope.studies.kerg2022.ptb_pmnist_attention:STUDY | kerg2020 kerg2022thesis
    attention, long sequences
psmnist | classification of digits from 784 pixels in a fixed random order
    Kerg 2022, Fig 2, A.1 Fig 1 and Table 2 | mnemoscope.studies.kerg2022.psmnist:STUDY
    kerg2019 kerg2020 kerg2022thesis | long sequences
ptb-bpc | bits per character on the Penn Treebank
    Kerg 2022, Tables 1 and 3 | mnemoscope.studies.kerg2022.ptb_bpc:STUDY | kerg2019 kerg2022thesis | long sequences
gamma-clamp | nnRNN with eigenvalues of fixed modulus on the Penn Treebank
    Kerg 2022, A.6 Table 6 | mnemoscope.studies.kerg2022.ptb_bpc:GAMMA_CLAMP | kerg2019 kerg2022thesis | spectrum
gradient-norms | gradients of nnRNN through time and through training
    Kerg 2022, A.6 Fig 3 | mnemoscope.studies.kerg2022.gradient_norms:STUDY | kerg2019 kerg2022thesis | gradients
learned-schur | rotations and non-normal parts that nnRNN learns on three tasks
    Kerg 2022, 3.6.3 Fig 3 and A.5 Fig 2 | mnemoscope.studies.kerg2022.learned_schur:STUDY | kerg2019 kerg2022thesis
    spectrum
chain-transients | transients of feed-forward chains, and powers of triangular matrices
    Kerg 2022, 3.4.1, Fig 1b and Prop 3.4.2 | mnemoscope.studies.kerg2022.chain_transients:STUDY
    kerg2019 kerg2022thesis | dynamics
schur-accuracy | eigenvalues by a Schur decomposition: accurate for normal matrices, not for the Grcar matrix
    Kerg 2022, A.4 | mnemoscope.studies.kerg2022.schur_accuracy:STUDY | kerg2019 kerg2022thesis | spectrum
unitary-families | formulas about orthogonal and unitary matrices; two printed gradients have the wrong direction
    Kerg 2022, Appendix D | mnemoscope.studies.kerg2022.unitary_families:STUDY
    arjovsky2016 wisdom2016 henaff2016 helfrich2018 lezcano2019 vorontsov2017 kerg2022thesis | spectrum
fisher-table | total Fisher information of feed-forward chains; five of twelve printed values are off
    Kerg 2022, A.2 Table 5 | mnemoscope.studies.kerg2022.fisher_table:STUDY | kerg2019 ganguli2008 kerg2022thesis
    capacity
fisher-curves | Fisher memory curves of feed-forward chains, with and without a diagonal
    Kerg 2022, 3.4.2 and Fig 1c | mnemoscope.studies.kerg2022.fisher_curves:STUDY | kerg2019 ganguli2008 kerg2022thesis
    capacity
fisher-delay-line | Fisher memory curve of a delay line, and how far random triangular matrices fall below it
    Kerg 2022, 3.4.2, Prop 3.4.1 and A.2 | mnemoscope.studies.kerg2022.fisher_delay_line:STUDY
    kerg2019 ganguli2008 kerg2022thesis | capacity
linear-memory | total memory of normal and random matrices, delay lines, and chains with feedback
    Kerg 2022, 2.6 | mnemoscope.studies.kerg2022.linear_memory:STUDY | ganguli2008 kerg2022thesis | capacity
matrix-capacity | capacity of matrix networks: below 1 as published, exactly 1 without approximation
    Renanse et al. 2021, Fig 2 and Theorems 2-3 | mnemoscope.studies.renanse2021.matrix_capacity:STUDY
    renanse2021 ganguli2008 | capacity
matrix-theorems | printed formulas for matrix networks, each compared with the number that it stands for
    Renanse et al. 2021, Lemmas 1-2, Theorems 1 and 4 | mnemoscope.studies.renanse2021.matrix_theorems:STUDY
    renanse2021 | capacity
queue-capacity | capacity of matrix networks with a queue of past states: what is an artefact, and what is real
    Renanse et al. 2021, Fig 3-4 and Theorem 4 | mnemoscope.studies.renanse2021.queue_capacity:STUDY
    renanse2021 ganguli2008 | capacity
matrix-copy | which networks learn to reproduce up to 20 random matrices: a machine with a tape, a Matrix RNN without
    Renanse et al. 2021, section 6.1, Table 1 and Fig 5 | mnemoscope.studies.renanse2021.matrix_copy:STUDY
    renanse2021 graves2014 | external memory
matrix-recall | which networks learn to recall the matrix that follows the one shown again
    Renanse et al. 2021, section 6.2, Table 1, Fig 7 and 9 | mnemoscope.studies.renanse2021.matrix_recall:STUDY
    renanse2021 graves2014 | external memory
ntm-copy | iterations until a neural Turing machine reproduces up to 20 random vectors
    Graves et al. 2014, section 4.1 | mnemoscope.studies.renanse2021.ntm_copy:STUDY | graves2014 collier2018 pytorch_ntm
    external memory
length-generalisation | train to copy up to 20 matrices or vectors, test with up to 120
    Renanse et al. 2021, Fig 9; Graves et al. 2014, section 4.1
    mnemoscope.studies.renanse2021.length_generalisation:STUDY | renanse2021 graves2014 | external memory
controller-comparison | neural Turing machines with different controllers: Matrix RNN or LSTM, LSTM or feed-forward
    Renanse et al. 2021, section 7; Graves et al. 2014, section 4.1
    mnemoscope.studies.renanse2021.controller_comparison:STUDY | renanse2021 graves2014 | external memory
repeat-copy | variables of networks trained to repeat vectors, read off the weights and tested
    Karuvally et al. 2023, section 9 | mnemoscope.studies.karuvally2023.variable_binding:REPEAT_COPY | karuvally2023
    variable binding
compose-copy | variables of networks trained to compose new vectors from old ones
    Karuvally et al. 2023, section 10 | mnemoscope.studies.karuvally2023.variable_binding:COMPOSE_COPY | karuvally2023
    variable binding
variable-equations | printed equations of the theory of variable binding against networks that follow them
    Karuvally et al. 2023, sections 9 to 11 | mnemoscope.studies.karuvally2023.variable_equations:STUDY | karuvally2023
    variable binding
binding-table | eigenvalues of trained networks compared with the theory, by task, size and weight decay
    the table of the notebook that Karuvally et al. 2023 released
    mnemoscope.studies.karuvally2023.binding_table:STUDY | karuvally2023 karuvally2023notebook
    variable binding
sequence-recall | stored memories recalled in sequence: mixed by the map, separate where the delayed copy waits
    Karuvally et al. 2023, Eq 2-11 | mnemoscope.studies.karuvally2023.sequence_recall:STUDY | karuvally2023
    episodic memory
energy-descent | on how many steps each printed energy of the episodic memory rises; the corrected one never does
    Karuvally et al. 2023, Eq 3, and notes on its energy, Eq 25-47
    mnemoscope.studies.karuvally2023.energy_descent:STUDY | karuvally2023 energy_notes | energy
energy-equations | printed equations of the notes on the energy against automatic differentiation
    Unpublished notes on the energy of Karuvally et al. 2023, Eq 25-58
    mnemoscope.studies.karuvally2023.printed_equations:STUDY | karuvally2023 energy_notes | energy
conjugate-memories | fixed points of the episodic memory and of its conjugate network; stored and spurious memories
    Karuvally et al. 2023, sections 1, 2 and 4 | mnemoscope.studies.karuvally2023.conjugate_memories:STUDY
    karuvally2023 | episodic memory
relational-cognitive | accuracy on unseen shapes: same-different, match-to-sample, distribution of three, identity rules
    Kerg 2022, 5.6 Fig 3, C.8 Fig 6 and 13 | mnemoscope.studies.kerg2022.relational_cognitive:STUDY
    kerg2022 webb2021 shanahan2020 santoro2017 vaswani2017 kerg2022thesis | relations
ablations | relational networks whose decoder sees objects, whose comparison is asymmetric, or whose encoder is random
    Kerg 2022, 5.6 Fig 4, C.8 Fig 7-9 | mnemoscope.studies.kerg2022.ablations:STUDY | kerg2022 webb2021 kerg2022thesis
    relations
spurious | shapes in irrelevant colours: encoders that are random, learned or sparse
    Kerg 2022, 5.6 Fig 6, C.5 Fig 3 and C.6 Fig 4 | mnemoscope.studies.kerg2022.spurious:STUDY
    kerg2022 webb2021 kerg2022thesis | relations
distribution-of-n | which of ten shapes is missing from a row seen in another order, including orders never trained
    Kerg 2022, C.4 and Fig 2 | mnemoscope.studies.kerg2022.distribution_of_n:STUDY | kerg2022 webb2021 kerg2022thesis
    relations
unseen-relations | accuracy on relations absent from training, with unseen shapes
    Kerg 2022, 5.6 Fig 5, C.3 Fig 1, C.8 Fig 10, 11 and 13 | mnemoscope.studies.kerg2022.unseen_relations:STUDY
    kerg2022 webb2021 kerg2022thesis | relations
relational-games | games learned with pentominoes, tested with hexominoes and stripes of other colours
    Kerg 2022, chapter 5 Table 1 and C.2 Table 2 | mnemoscope.studies.kerg2022.relational_games:STUDY
    kerg2022 shanahan2020 webb2021 kerg2022thesis | relations
parameter-match | parameter counts of relational networks, and what CoRelNet learns with as many as ESBN
    Kerg 2022, C.7 Table 3 and Fig 5 | mnemoscope.studies.kerg2022.parameter_match:STUDY
    kerg2022 webb2021 kerg2022thesis | relations
comparison | which of two shapes is larger: directed similarities, differences, and competing rules
    Kerg 2022, chapter 7 Fig 2 and 3 | mnemoscope.studies.kerg2022.comparison:STUDY | kerg2022 webb2021 kerg2022thesis
    relations
mante-selection | line attractors and selection vectors of networks that decide about motion or colour by context
    Mante et al. 2013, Fig 5 and 6 | mnemoscope.studies.mante2013.selection:STUDY | mante2013 song2016 | dynamics
formal-languages | parity and modular arithmetic with eigenvalues in [0, 1] and in [-1, 1]
    Grazzi et al. 2025, Table 3 | mnemoscope.studies.grazzi2025.formal_languages:STUDY | grazzi2025 beck2024
    state tracking
word-problems | products of permutations, with one or more reflections for each letter
    Siems et al. 2025 | mnemoscope.studies.siems2025.word_problems:STUDY | siems2025 merrill2024 | state tracking
mad | tasks of mechanistic architecture design: recall, copying and memorising by small networks
    Yang et al. 2024, Fig 3; Peng et al. 2025; Jbara 2025 | mnemoscope.studies.yang2024.mad:STUDY
    poli2024 yang2024delta peng2025 lin_attn_bench | recall
mqar-widths | recall of up to 64 values by networks of several widths
    Arora et al. 2024, Fig 2; Yang et al. 2024, Fig 2 | mnemoscope.studies.arora2024.mqar:STUDY
    arora2024 yang2024delta peng2025 | recall
string-copying | copying of strings by Transformers and recurrences, also longer ones than in training
    Jelassi et al. 2024 | mnemoscope.studies.jelassi2024.copying:STUDY | jelassi2024 | copying
selective-memory | selective copying, and what followed a trigger in sequences of up to 16,384 steps
    Gu & Dao 2024, Tables 1 and 2 | mnemoscope.studies.gu2024.selection:STUDY | gu2024 fu2023 | recall
"""

studies = Registry("study", read_entries(STUDIES))
