"""Studies of Siems et al. 2025, "DeltaProduct: Improving State-Tracking in Linear RNNs via Householder Products"."""
