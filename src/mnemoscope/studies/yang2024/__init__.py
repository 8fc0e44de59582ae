"""Studies of Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule", and of its benchmarks."""
