"""Networks that see relations between objects, and tasks that need nothing else."""
