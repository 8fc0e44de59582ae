"""Published tables and figures of Jang, “Recurrent neural networks as dynamical systems”."""
