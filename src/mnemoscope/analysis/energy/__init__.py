"""The energy lens: what falls along a network's trajectories, by how much, and why."""
