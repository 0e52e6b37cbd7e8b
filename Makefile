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

demo: $(READY)  ## plan a mark, draw what it costs, write text with it
	mkdir -p out
	powermark plan --n-tokens 50 --alpha .05 --power .95
	powermark plan --n-tokens 200 --alpha 1e-3 --power .95 --edit-rate .1
	powermark curve --over power --n-tokens 50 --alpha .05 --power .95 --plot out/tradeoff.svg
	@echo "picture: out/tradeoff.svg"
	test -e out/demo.key || powermark key new out/demo.key
	powermark plan --n-tokens 100 --alpha .01 --power .95 --edit-rate .02 \
	  --model smollm2-135m --key out/demo.key -o out/demo.json
	powermark generate --spec out/demo.json --key out/demo.key --n-tokens 120 \
	  "The city council met on Tuesday" | tee out/demo.txt
	powermark detect --spec out/demo.json --key out/demo.key out/demo.txt --html out/report.html
	@echo "report: out/report.html"

test: $(READY)  ## all tests, on all cores, with full coverage
	pytest -n auto --dist worksteal --cov --cov-report=term

check: $(READY)  ## lint, format, types, import contracts, generated docs
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	cog --check -I docs README.md docs/cli.md

bench: $(READY)  ## speeds that are promised
	@status=0; for part in plan embed detect; do \
	  python -m benchmarks.$$part || status=1; \
	done; exit $$status

browser: $(READY)  ## the HTML report in a real Chromium
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	python -m pytest -q browser

docs: $(READY)  ## regenerate what the docs show of real output
	cog -r -I docs README.md docs/cli.md
	mkdir -p docs/figures
	powermark curve --over power --points 60 --n-tokens 50 --alpha .05 --power .95 \
	  --plot docs/figures/tradeoff.svg > /dev/null
	powermark reproduce fig-roots -o docs/figures
	powermark reproduce table-hypergeometric -o docs/figures

clean:
	rm -rf .venv out
