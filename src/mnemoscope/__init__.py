"""Mnemoscope builds recurrent networks, teaches them memory tasks, and shows what they remember.

    import mnemoscope as ms
    fp = ms.find_fixed_points(torch.nn.GRU(3, 16))

Names are loaded on first use, so that the command line can answer `--help` without waiting for torch.
"""

from mnemoscope.base.lazy_imports import TYPE_CHECKING, lazy_attributes

if TYPE_CHECKING:
    from mnemoscope import (
        cells as cells,
        connectivity as connectivity,
        drawing as drawing,
        engines as engines,
        inspection as inspection,
        kernels as kernels,
        lenses as lenses,
        memory as memory,
        networks as networks,
        registry as registry,
        relational as relational,
        replication as replication,
        report as report,
        store as store,
        studies as studies,
        sweeps as sweeps,
        tasks as tasks,
        training as training,
    )
    from mnemoscope.base.groups import Group as Group, named_group as named_group
    from mnemoscope.base.trial_table import Condition as Condition, Epoch as Epoch, TrialTable as TrialTable
    from mnemoscope.base.version import __version__ as __version__
    from mnemoscope.cells import (
        EchoState as EchoState,
        EpisodicMemory as EpisodicMemory,
        Model as Model,
        adapt as adapt,
        load_state as load_state,
        patch as patch,
        run_with_cache as run_with_cache,
        save_state as save_state,
        scan as scan,
    )
    from mnemoscope.config import RunConfig as RunConfig
    from mnemoscope.inspection import Inspection as Inspection, inspect as inspect
    from mnemoscope.lenses import (
        Attention as Attention,
        AttentionDependencies as AttentionDependencies,
        Attractors as Attractors,
        Basin as Basin,
        Behaviour as Behaviour,
        BifurcationDiagram as BifurcationDiagram,
        Cycles as Cycles,
        Drift as Drift,
        Dynamics as Dynamics,
        EnergyDescent as EnergyDescent,
        EnergySurface as EnergySurface,
        FisherMemory as FisherMemory,
        FixedPoints as FixedPoints,
        Generalisation as Generalisation,
        GradientNorms as GradientNorms,
        Influence as Influence,
        Intervention as Intervention,
        Load as Load,
        Loops as Loops,
        LyapunovSpectrum as LyapunovSpectrum,
        MatrixSystem as MatrixSystem,
        MeasuredInfluence as MeasuredInfluence,
        MemoryCapacity as MemoryCapacity,
        MemoryClasses as MemoryClasses,
        MemoryDesign as MemoryDesign,
        Occlusion as Occlusion,
        Recall as Recall,
        RecallInterference as RecallInterference,
        RecallTrials as RecallTrials,
        Recording as Recording,
        Relations as Relations,
        SlowManifold as SlowManifold,
        SpanScores as SpanScores,
        Spectrum as Spectrum,
        StateTracking as StateTracking,
        Tape as Tape,
        Transients as Transients,
        Transitions as Transitions,
        Variables as Variables,
        classify_memories as classify_memories,
        close_loop as close_loop,
        design_memory as design_memory,
        energy_descent as energy_descent,
        energy_surface as energy_surface,
        find_attractors as find_attractors,
        find_cycles as find_cycles,
        find_fixed_points as find_fixed_points,
        find_loops as find_loops,
        find_slow_manifold as find_slow_manifold,
        find_variables as find_variables,
        fisher_memory as fisher_memory,
        gradient_norms as gradient_norms,
        influence as influence,
        interpolate_inputs as interpolate_inputs,
        interpolate_weights as interpolate_weights,
        lyapunov_spectrum as lyapunov_spectrum,
        measure_basin as measure_basin,
        measure_drift as measure_drift,
        measure_influence as measure_influence,
        measure_intervention as measure_intervention,
        measure_load as measure_load,
        measure_memory_capacity as measure_memory_capacity,
        measure_occlusion as measure_occlusion,
        measure_recall as measure_recall,
        memory_capacity as memory_capacity,
        recall_interference as recall_interference,
        record_activity as record_activity,
        record_attention as record_attention,
        record_behaviour as record_behaviour,
        record_relations as record_relations,
        record_tape as record_tape,
        spectrum as spectrum,
        state_tracking as state_tracking,
        track_fixed_points as track_fixed_points,
        transients as transients,
        transitions as transitions,
    )
    from mnemoscope.training import (
        TrainResult as TrainResult,
        fit_readout as fit_readout,
        train as train,
        train_force as train_force,
    )

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
