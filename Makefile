# Everything here sets itself up in .venv on a machine with Python 3.11 and pip.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test check bench browser docs clean
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)  ## the whole story on the embedded model: key, profile, plan, text, detection, proof
	powermark demo -o out

test: $(READY)  ## all tests, on all cores, with full coverage
	pytest -n auto --dist worksteal --cov --cov-report=term

check: $(READY)  ## lint, format, types, import contracts, generated docs
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	cog --check -I docs README.md docs/cli.md docs/profiles.md docs/steering.md

bench: $(READY)  ## speeds that are promised
	@status=0; for part in plan profile embed detect; do \
	  python -m benchmarks.$$part || status=1; \
	done; exit $$status

browser: $(READY)  ## the HTML report in a real Chromium
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	python -m pytest -q browser

docs: $(READY)  ## regenerate what the docs show of real output
	cog -r -I docs README.md docs/cli.md docs/profiles.md docs/steering.md
	mkdir -p docs/figures
	powermark curve --over power --points 60 --n-tokens 50 --alpha .05 --power .95 \
	  --plot docs/figures/tradeoff.svg > /dev/null
	powermark reproduce fig-roots -o docs/figures
	powermark reproduce table-hypergeometric -o docs/figures

clean:
	rm -rf .venv out
