# Everything runs in .venv, which the first command that needs it creates.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-quick test-matrix test-all lint types pytest bench soak numerics scoreboard docs build clean

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --build-constraint constraints.txt --editable '.[dev]'
	touch $@

demo: .venv/installed  ## train a 3-bit flip-flop, find its fixed points, write the page
	$(BIN)/mnemoscope demo

test: .venv/installed  ## lint, types, tests and docstring examples
	$(MAKE) --no-print-directory --jobs 2 lint pytest  # together: the checks of lint use only one core

pytest: .venv/installed
	# a thread for each of the two processes, since more would wait for each other; bytecode for the processes they start
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder

QUICK := tests/test_house.py tests/test_language.py tests/config tests/registry tests/store tests/networks \
	tests/tasks/test_tasks.py tests/lenses/test_results.py tests/lenses/test_fixed_points.py

test-quick: .venv/installed  ## the inner loop, under a minute: rooms, registries, factories, tasks, results, fixed points
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -q $(QUICK)

test-matrix: .venv/installed  ## the same tests with every supported Python of this machine
	$(BIN)/python tools/python_matrix.py $(QUICK)

test-all: export MNEMOSCOPE_SLOW = 1
test-all: types test  ## the same with pyright, the slow tests and every case of every test

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python tools/language.py --check
	$(BIN)/ty check --quiet

types: .venv/installed  ## the slower of the two type checkers, which also understands overloads and data classes
	$(BIN)/pyright

bench: .venv/installed  ## timings as tables and plots under runs/bench; each benchmark's --help has more
	$(BIN)/python benchmarks/fixed_points.py
	$(BIN)/python benchmarks/scans.py
	$(BIN)/python benchmarks/matrices.py
	$(BIN)/python benchmarks/fisher.py
	$(BIN)/python benchmarks/relational.py
	$(BIN)/python benchmarks/relational_runs.py
	$(BIN)/python benchmarks/trials.py

soak: .venv/installed  ## attacks for about 20 minutes: kills, full disks, threads, fuzzed and hostile input; writes docs/reliability.md
	$(BIN)/python -m tools.soak --jobs 2 --write

numerics: .venv/installed  ## the mathematics against independent references, for some minutes; writes docs/reliability.md
	$(BIN)/python -m tools.numerics --write

scoreboard: .venv/installed  ## after a result or the run list has changed: rewrite results, SCOREBOARD.md, the counts in README.md and results/RUNS.md
	$(BIN)/mnemoscope scoreboard --results results --root None --rewrite --markdown SCOREBOARD.md --summary README.md
	$(BIN)/mnemoscope replicate --markdown results/RUNS.md

docs: .venv/installed  ## the documentation as build/site/index.html; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

build: .venv/installed  ## the wheel and the source distribution, in dist
	$(BIN)/python -m hatchling build --clean

clean:
	rm -rf .venv build dist
