"""Memory outside the state of a cell: attention over its past, and the tape of a Turing machine."""
