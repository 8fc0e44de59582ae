"""Attacks on a whole installation: kills, full disks, threads, fuzzed input, damaged and hostile files."""
