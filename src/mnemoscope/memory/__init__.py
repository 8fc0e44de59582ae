"""What a cell may consult beside its state: attention over its past, a Turing tape."""
