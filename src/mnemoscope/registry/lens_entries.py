"""The lenses by name: what can be measured on a network. The columns are described in `table.py`."""

from mnemoscope.registry.entry import Registry
from mnemoscope.registry.table import read_entries

FORMER_NAMES = {
    "evolution": "bifurcations",
    "fisher-along": "fisher",
    "gradients-by-part": "gradients",
    "memory-kinds": "memory-classes",
    "memory-load": "load",
}
"""Names of lenses on pages that earlier versions wrote, and their names of today."""

LENSES = """
behaviour | what a network answers on trials: inputs, targets and outputs, and scores by step, position and delay
    mnemoscope | mnemoscope.lenses:record_behaviour | mnemoscope | behaviour
activity | the activity of all units of a network in trials, with the conditions and epochs of the trials
    mnemoscope | mnemoscope.lenses:record_activity | mnemoscope | behaviour, populations
speed | how fast the trajectory of each condition is traversed, and its distance from a reference
    Remington et al. 2018 | mnemoscope.lenses:measure_speed | remington2018 | behaviour, populations
principal-components | directions in which mean activity varies most, and the dimension of its signal without noise
    mnemoscope; Pearson 1901 | mnemoscope.lenses:principal_components | mnemoscope pearson1901 | populations
demixed-components | components for time, each condition and each interaction, with shuffles as control
    Kobak et al. 2016 | mnemoscope.lenses:demixed_components | kobak2016 | populations
rotations | planes in which the activity of conditions rotates (jPCA), beside any linear dynamics and surrogates
    Churchland et al. 2012; Elsayed & Cunningham 2017 | mnemoscope.lenses:find_rotations | churchland2012 elsayed2017
    populations
tensor-components | trials as sums of products of a trial, a time and a unit factor, over restarts
    Williams et al. 2018 | mnemoscope.lenses:tensor_components | williams2018 | populations
selectivity | how much of each unit's variance a condition explains in each epoch, with permutations as control
    Freedman & Lane 1983; Benjamini & Hochberg 1995 | mnemoscope.lenses:measure_selectivity | freedman1983 benjamini1995
    populations
task-variance | which units vary in which tasks, their clusters, and whether these are better than chance
    Yang et al. 2019; Tibshirani et al. 2001 | mnemoscope.lenses:task_variance | yang2019 tibshirani2001 rousseeuw1987
    populations
influence | how much every past input matters for every output, exactly: value path, full derivative, whole network
    mnemoscope; Ali et al. 2024; Hutchinson 1990 | mnemoscope.lenses:influence
    mnemoscope ali2024 hutchinson1990 | behaviour
measured-influence | how much an input k steps ago changes outputs and states: it is replaced by that of another trial
    mnemoscope | mnemoscope.lenses:measure_influence | mnemoscope | behaviour
fixed-points | all fixed points, their types and time constants, and whether the set is complete
    Sussillo & Barak 2013; Jang, Eq 1-13 | mnemoscope.lenses:find_fixed_points | sussillo2013 jang | dynamics
conditions | any lens on a system at several constant inputs, such as contexts or epochs, with results by name
    mnemoscope | mnemoscope.lenses:by_condition | mnemoscope | dynamics
selection-vectors | left eigenvectors of the slowest modes: how strongly each input is integrated at each fixed point
    Mante et al. 2013 | mnemoscope.lenses:selection_vectors | mante2013 | dynamics
slow-manifold | approximate continuous memories: line, ring, plane, sphere or torus, its drift and lifetime
    Sussillo & Barak 2013; Ságodi et al. 2024 | mnemoscope.lenses:find_slow_manifold | sussillo2013 sagodi2024
    dynamics
reduction | latent variables of a low-rank network: their flow and fixed points, exactly and as a mean field
    Mastrogiuseppe & Ostojic 2018; Beiran et al. 2021; Dubreuil et al. 2022 | mnemoscope.lenses:measure_reduction
    mastrogiuseppe2018 beiran2021 dubreuil2022 | dynamics | mnemoscope.inspection.low_rank:low_rank_sections
diffusion | how noise spreads the value that a line or ring holds, from left tangent vectors and by simulation
    mnemoscope | mnemoscope.lenses:measure_diffusion | mnemoscope | dynamics
noise-tolerance | how well a network answers while noise, relative to the size of its state, enters it at every step
    mnemoscope | mnemoscope.lenses:measure_noise_tolerance | mnemoscope | behaviour, dynamics
rank | the task performance that a trained matrix, or its change in training, keeps at each lower rank
    Schuessler et al. 2020; Dubreuil et al. 2022 | mnemoscope.lenses:measure_rank | schuessler2020 dubreuil2022
    matrices
resampling | whether networks drawn from Gaussian populations of the loadings still solve the task
    Dubreuil et al. 2022 | mnemoscope.lenses:measure_resampling | dubreuil2022 | matrices
bifurcations | fixed points tracked along training, inputs or a parameter: births, deaths, changes of stability
    Jang, section 6.1 and Fig 7 | mnemoscope.lenses:track_fixed_points | jang sussillo2013 | dynamics
spectra | eigenvalues, Schur form, departure from normality, growth of powers, Kreiss constant, pseudospectra
    Henrici 1962; Trefethen & Embree 2005; Kerg et al. 2019, Eq 3.4.1, Fig 3 | mnemoscope.lenses:spectrum
    henrici1962 trefethen2005 kerg2019 | matrices | mnemoscope.inspection.spectra:spectra_sections
transitions | what each input does to the state of an affine recurrence: eigenvalues, exponents, growth of products
    mnemoscope; Benettin et al. 1980; Henrici 1962; Grazzi et al. 2025 | mnemoscope.lenses:transitions
    mnemoscope benettin1980 henrici1962 grazzi2025 | dynamics, matrices
transients | norm and spread, step by step, of an ensemble of states that starts on a sphere
    Kerg et al. 2019, Fig 1b | mnemoscope.lenses:transients | kerg2019 | dynamics
fisher | Fisher memory: information about past signals under noise, of linear networks or along inputs of any network
    Ganguli et al. 2008; Kerg 2022, 2.6 and 3.4.2; Renanse et al. 2021, sections 2 and 3
    mnemoscope.lenses:fisher_memory | ganguli2008 kerg2019 renanse2021 kerg2022thesis | capacity
    mnemoscope.inspection.memory:memory_sections
memory-capacity | how well a linear readout recovers each past signal: in closed form, or measured for any cell
    Jaeger 2001 | mnemoscope.lenses:memory_capacity | jaeger2001 | capacity
design | search for the network that holds most of its past signals at a given norm and spectral radius
    Ganguli et al. 2008 | mnemoscope.lenses:design_memory | ganguli2008 | capacity
interference | recall of one of many stored values, predicted from the exact weights of all others, without a fit
    mnemoscope | mnemoscope.lenses:recall_interference | mnemoscope | associative memory
recall | sequence in which an episodic memory recalls its stored patterns, and whether Phi prescribes it
    Karuvally et al. 2023, Eq 2-8 | mnemoscope.lenses:measure_recall | karuvally2023 | episodic memory
memory-classes | which fixed points of an episodic memory are stored, reversed, mixtures, unrelated or metastable
    Karuvally et al. 2023, sections 1 and 2 | mnemoscope.lenses:classify_memories | karuvally2023 | episodic memory
load | how many random patterns an episodic memory recalls from corrupted starts (measured)
    Hopfield 1982; Karuvally et al. 2023 | mnemoscope.lenses:measure_load | hopfield1982 karuvally2023
    episodic memory, capacity
recall-basin | number of flipped signs from which a stored memory is still recalled
    Hopfield 1982; Karuvally et al. 2023 | mnemoscope.lenses:measure_recall_basin | hopfield1982 karuvally2023
    episodic memory, capacity
energy | whether an energy of an episodic memory or Elman network must fall along trajectories, and where it rises
    Karuvally et al. 2023, Eq 3 and supplement, Eq 25 | mnemoscope.lenses:energy_descent | karuvally2023 | dynamics
variables | which variable a network holds in which direction and when: decoded, and tested by interventions
    Karuvally et al. 2023, sections 5 to 11 | mnemoscope.lenses:find_variables | karuvally2023 | variable binding
intervention | a variable in the state is erased, swapped or transplanted: effect on answers, beside random subspaces
    mnemoscope | mnemoscope.lenses:measure_intervention | mnemoscope | variable binding
basin | from which perturbations, by size and direction, a network returns to the same fixed point or cycle
    mnemoscope | mnemoscope.lenses:measure_basin | mnemoscope | dynamics
cycles | limit cycles of any period and stability, their Floquet multipliers, and whether the set is complete
    Jang, section 9.1 | mnemoscope.lenses:find_cycles | jang sussillo2013 | dynamics
lyapunov | Lyapunov exponents with errors, at constant or changing input: chaos, its dimension, echo state property
    Benettin et al. 1980; Shimada & Nagashima 1979; Geist et al. 1990; Kaplan & Yorke 1979
    mnemoscope.lenses:lyapunov_spectrum | benettin1980 shimada1979 geist1990 kaplan1979 | dynamics
predictability | whether a network can run in parallel over time on given inputs: exponent and expected iterations
    Gonzalez et al. 2025 | mnemoscope.lenses:measure_predictability
    gonzalez2024 gonzalez2025 lim2024 benettin1980 | dynamics
attractors | where a network settles: points, cycles, circles, slow manifolds or chaos, with their basins
    Jang, section 9.1 | mnemoscope.lenses:find_attractors | jang benettin1980 | dynamics
comparison | distances between networks or recordings by dynamics, inputs, geometry or fixed points, beside nulls
    Ostrow et al. 2023; Huang et al. 2025; Kornblith et al. 2019; Williams et al. 2021 | mnemoscope.lenses:compare
    ostrow2023 huang2025 kornblith2019 williams2021 gavish2014 rousseeuw1987 | dynamics, populations
closed-loop | the loops in which a network ends that reads its own outputs, their basins and multipliers
    mnemoscope | mnemoscope.lenses:find_loops | mnemoscope | dynamics
state-tracking | operators learned for the letters of a group, their relations, and the length at which words fail
    mnemoscope; Grazzi et al. 2025 | mnemoscope.lenses:state_tracking | mnemoscope grazzi2025 | dynamics
attention | where a network attends at every step, which states it keeps and why, sparsity and dependency depth
    Kerg 2022, 4.4 and Fig 1 | mnemoscope.lenses:record_attention | kerg2020 kerg2022thesis | attention
gradients | how much of a loss reaches back to each step, and to each part of the state, before and after training
    Kerg 2022, 4.7 and Fig 2; Jang, section 9.2 | mnemoscope.lenses:gradient_norms | kerg2020 kerg2022thesis jang
    gradients
tape | content of a Turing machine's tape, and where its heads write and read at every step
    Graves et al. 2014, Fig 6; Renanse et al. 2021, Fig 6 and 8 | mnemoscope.lenses:record_tape | graves2014 renanse2021
    tape
relations | similarities of objects in a relational network, before the softmax and as its decoder sees them
    Kerg 2022, 5.5; Webb et al. 2021 | mnemoscope.lenses:record_relations | kerg2022 webb2021 kerg2022thesis
    relational
occlusion | what a decoder relies on: each relation, and the objects themselves, are hidden in turn
    mnemoscope; Kerg 2022, 5.6 and Fig 4 | mnemoscope.lenses:measure_occlusion | mnemoscope kerg2022 kerg2022thesis
    relational
drift | how well an encoder separates objects absent from its training, before and after training
    mnemoscope; Kerg 2022, 5.6 and Fig 4 | mnemoscope.lenses:measure_drift | mnemoscope kerg2022 kerg2022thesis
    relational
generalisation | accuracy on seen and on unseen shapes against the number of shapes held out
    Kerg 2022, C.8 | mnemoscope.lenses:Generalisation | kerg2022 kerg2022thesis | relational
"""

lenses = Registry("lens", read_entries(LENSES), FORMER_NAMES)
