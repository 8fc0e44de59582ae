"""Studies of Jelassi et al. 2024, "Transformers are Better than State Space Models at Copying"."""
