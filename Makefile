# Thin: each target is one or two lines. `make matrix` and `make test` set up all they need.
PYTHON ?= python3
BIN := .venv/bin
H := $(BIN)/harness

.PHONY: setup matrix bisect time publish test check clean

setup: $(BIN)/.ready

$(BIN)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -e '.[dev]' && touch $@

matrix: setup
	$(H) matrix $(ARGS)

bisect: setup
	for case in $$(ls cases/*.yaml | xargs -n1 basename -s .yaml); do $(H) bisect $$case --save results/bisect $(ARGS) || exit $$?; done

time: setup
	$(H) time $(ARGS)

publish: setup
	$(H) publish $(ARGS)

test: setup
	$(BIN)/pytest $(ARGS)

check: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/pytest $(ARGS)

clean: setup
	$(H) envs prune --all
