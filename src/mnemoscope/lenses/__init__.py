"""Lenses: each analyses a network or a dynamical system and returns a `Result`.

A lens is imported when one of its names is first used: all of them together take as long as half of torch.
"""

from mnemoscope.base.lazy_imports import TYPE_CHECKING, lazy_attributes

if TYPE_CHECKING:
    from mnemoscope.lenses.attention import (
        Attention as Attention,
        AttentionDependencies as AttentionDependencies,
        record_attention as record_attention,
    )
    from mnemoscope.lenses.attractors import (
        Attractors as Attractors,
        Cycles as Cycles,
        Kind as Kind,
        LyapunovSpectrum as LyapunovSpectrum,
        find_attractors as find_attractors,
        find_cycles as find_cycles,
        lyapunov_spectrum as lyapunov_spectrum,
    )
    from mnemoscope.lenses.basins import Basins as Basins, measure_basin as measure_basin
    from mnemoscope.lenses.behaviour import (
        Behaviour as Behaviour,
        SpanScores as SpanScores,
        record_behaviour as record_behaviour,
    )
    from mnemoscope.lenses.bifurcations import (
        BifurcationDiagram as BifurcationDiagram,
        interpolate_inputs as interpolate_inputs,
        interpolate_weights as interpolate_weights,
        track_fixed_points as track_fixed_points,
    )
    from mnemoscope.lenses.capacity import (
        MemoryCapacity as MemoryCapacity,
        measure_memory_capacity as measure_memory_capacity,
        memory_capacity as memory_capacity,
    )
    from mnemoscope.lenses.closed_loop import Loops as Loops, close_loop as close_loop, find_loops as find_loops
    from mnemoscope.lenses.comparison import Comparison as Comparison, compare as compare
    from mnemoscope.lenses.conditions import ByCondition as ByCondition, by_condition as by_condition
    from mnemoscope.lenses.demixing import (
        DemixedComponents as DemixedComponents,
        demixed_components as demixed_components,
    )
    from mnemoscope.lenses.design import MemoryDesign as MemoryDesign, design_memory as design_memory
    from mnemoscope.lenses.diffusion import Diffusion as Diffusion, measure_diffusion as measure_diffusion
    from mnemoscope.lenses.dynamics import Dynamics as Dynamics
    from mnemoscope.lenses.energy import (
        EnergyDescent as EnergyDescent,
        EnergySurface as EnergySurface,
        energy_descent as energy_descent,
        energy_surface as energy_surface,
    )
    from mnemoscope.lenses.exact_influence import (
        Influence as Influence,
        LayerInfluence as LayerInfluence,
        influence as influence,
    )
    from mnemoscope.lenses.fisher import (
        FisherMemory as FisherMemory,
        MatrixSystem as MatrixSystem,
        fisher_memory as fisher_memory,
    )
    from mnemoscope.lenses.fixed_points.composite_starts import (
        Adaptive as Adaptive,
        Several as Several,
    )
    from mnemoscope.lenses.fixed_points.descent import Tolerances as Tolerances
    from mnemoscope.lenses.fixed_points.lens import find_fixed_points as find_fixed_points
    from mnemoscope.lenses.fixed_points.matrix_free import GaussNewtonCG as GaussNewtonCG, NewtonKrylov as NewtonKrylov
    from mnemoscope.lenses.fixed_points.mixed_precision import ChordNewton as ChordNewton
    from mnemoscope.lenses.fixed_points.newton import LevenbergMarquardt as LevenbergMarquardt, Newton as Newton
    from mnemoscope.lenses.fixed_points.outcomes import Starts as Starts, Status as Status
    from mnemoscope.lenses.fixed_points.peer_files import import_fixed_points as import_fixed_points
    from mnemoscope.lenses.fixed_points.result import FixedPoints as FixedPoints
    from mnemoscope.lenses.fixed_points.starts import (
        Box as Box,
        FromOutputs as FromOutputs,
        FromTrajectories as FromTrajectories,
    )
    from mnemoscope.lenses.gradients import GradientNorms as GradientNorms, gradient_norms as gradient_norms
    from mnemoscope.lenses.interference import (
        RecallInterference as RecallInterference,
        RecallTrials as RecallTrials,
        recall_interference as recall_interference,
    )
    from mnemoscope.lenses.intervention import (
        Intervention as Intervention,
        measure_intervention as measure_intervention,
    )
    from mnemoscope.lenses.loading_populations import (
        Resampling as Resampling,
        fit_mixture as fit_mixture,
        measure_resampling as measure_resampling,
    )
    from mnemoscope.lenses.low_rank import (
        LatentCell as LatentCell,
        Reduction as Reduction,
        mean_field as mean_field,
        measure_reduction as measure_reduction,
        reduce_network as reduce_network,
    )
    from mnemoscope.lenses.matrix_rank import RankScores as RankScores, measure_rank as measure_rank
    from mnemoscope.lenses.noise_tolerance import (
        NoiseTolerance as NoiseTolerance,
        measure_noise_tolerance as measure_noise_tolerance,
    )
    from mnemoscope.lenses.predictability import (
        Predictability as Predictability,
        measure_predictability as measure_predictability,
    )
    from mnemoscope.lenses.principal_axes import (
        PrincipalComponents as PrincipalComponents,
        principal_components as principal_components,
    )
    from mnemoscope.lenses.recall import (
        Load as Load,
        MemoryClass as MemoryClass,
        MemoryClasses as MemoryClasses,
        Recall as Recall,
        RecallBasin as RecallBasin,
        classify_memories as classify_memories,
        measure_load as measure_load,
        measure_recall as measure_recall,
        measure_recall_basin as measure_recall_basin,
    )
    from mnemoscope.lenses.recording import (
        Recording as Recording,
        read_recording as read_recording,
        record_activity as record_activity,
        regression_axes as regression_axes,
    )
    from mnemoscope.lenses.relations import (
        Drift as Drift,
        Generalisation as Generalisation,
        Occlusion as Occlusion,
        Relations as Relations,
        measure_drift as measure_drift,
        measure_occlusion as measure_occlusion,
        record_relations as record_relations,
    )
    from mnemoscope.lenses.replacement import (
        MeasuredInfluence as MeasuredInfluence,
        measure_influence as measure_influence,
    )
    from mnemoscope.lenses.result import load_result as load_result
    from mnemoscope.lenses.rotations import Rotations as Rotations, find_rotations as find_rotations
    from mnemoscope.lenses.selection import (
        SelectionVectors as SelectionVectors,
        selection_vectors as selection_vectors,
    )
    from mnemoscope.lenses.selective_units import Selectivity as Selectivity, measure_selectivity as measure_selectivity
    from mnemoscope.lenses.slow_manifold import (
        SlowManifold as SlowManifold,
        find_slow_manifold as find_slow_manifold,
    )
    from mnemoscope.lenses.spectra import (
        Growth as Growth,
        Pseudospectrum as Pseudospectrum,
        SchurForm as SchurForm,
        Spectrum as Spectrum,
        SubDiagonals as SubDiagonals,
        schur_form as schur_form,
        spectrum as spectrum,
    )
    from mnemoscope.lenses.tape import Tape as Tape, record_tape as record_tape
    from mnemoscope.lenses.tracking import StateTracking as StateTracking, state_tracking as state_tracking
    from mnemoscope.lenses.transient_growth import Transients as Transients, transients as transients
    from mnemoscope.lenses.transition_operators import (
        LayerTransitions as LayerTransitions,
        Transitions as Transitions,
        transitions as transitions,
    )
    from mnemoscope.lenses.traversal import Traversal as Traversal, measure_speed as measure_speed
    from mnemoscope.lenses.trial_tensor import (
        TensorComponents as TensorComponents,
        tensor_components as tensor_components,
    )
    from mnemoscope.lenses.unit_clusters import TaskVariance as TaskVariance, task_variance as task_variance
    from mnemoscope.lenses.variables import (
        MemoryBasis as MemoryBasis,
        Variables as Variables,
        find_variables as find_variables,
    )

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
