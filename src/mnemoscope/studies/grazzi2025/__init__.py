"""Studies of Grazzi et al. 2025, "Unlocking State-Tracking in Linear RNNs Through Negative Eigenvalues"."""
