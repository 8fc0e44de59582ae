"""Studies of Gu & Dao 2024, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces"."""
