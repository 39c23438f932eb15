# make demo and make test each set up all that they need, in a virtual environment of the project's own.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := examples/mobilenetv3
# tests of the portable half run under the oldest interpreter that it supports, where there is one
OLDEST := $(firstword $(wildcard $(HOME)/.pyenv/versions/3.8*/bin/python) $(shell command -v python3.8 2>/dev/null))

# bytecode of an editable install, which pip does not write, and no import where PYTHONDONTWRITEBYTECODE is set: every command and every
# worker would compile some 600 files again
COMPILED = $(BIN)/python -m compileall -q src

# processes that share the tests; a test of two sides starts two interpreters of its own
WORKERS ?= 2

.PHONY: compat-alternative convert-code convert-tests convert-sources convert-training training-faults catalogue cheats rules

.PHONY: page init-rates layers composed jax docs axe help demo test quick lint types unit bench zoo faults mutants library-mutants fuzz kills unseen unseen-metrics

help:
	@echo "make demo             take the MobileNetV3 port through the guide's twelve steps (BREAK=name plants a porting mistake)"
	@echo "make demo-informer    the same with a port of the Informer, which draws random numbers in eval mode too"
	@echo "make test             lint, types, tests"
	@echo "make lowest           the tests with the least versions that are promised: the core, and the portable half under Python 3.8"
	@echo "make quick            the unit tests that need no framework"
	@echo "make unseen           judge ports and mistakes that the engine had not seen (ARGS=--faults plants the mistakes); writes docs/unseen.md"
	@echo "make zoo              map and prove pairs of models that others wrote; writes docs/zoo.md"
	@echo "make layers           check every layer and loss that both frameworks have; writes docs/layers.md"
	@echo "make composed         check random models of many steps with their right ports; writes docs/composed.md (SEED=n, COUNT=n)"
	@echo "make mutants          judge random edits of the same ports; writes docs/mutants.md (SEED=n for others)"
	@echo "make library-mutants  the same with models of libraries; writes docs/library-mutants.md"
	@echo "make faults           plant faults in correct ports, and see which tool finds them and where; writes docs/faults.md"
	@echo "make unseen-metrics   evaluations in plain numpy with one mistake each: is its line named first?"
	@echo "make rules            what each rule that chooses a line earns, on planted and unseen faults; writes docs/rules.md"
	@echo "make catalogue        execute every known difference between the frameworks; writes docs/catalogue.md"
	@echo "make convert-code     convert every pair of the catalogue in several forms, and execute what came out (docs/convert.md)"
	@echo "make convert-tests    convert and execute the test functions of paconvert, compare values (TESTS=folder of a checkout; docs/convert.md)"
	@echo "make compat-alternative  what paddle.enable_compat makes of the same programs (docs/convert.md)"
	@echo "make convert-sources  convert real models of three packages, and check the ports (docs/convert.md)"
	@echo "make convert-training convert parts of training programs, and execute each function on both sides (docs/convert.md)"
	@echo "make init-rates       how often the stage init accuses right initialisations and misses wrong ones (docs/guide.md)"
	@echo "make training-faults  plant mistakes that only a training shows, and see which part is blamed (docs/training.md)"
	@echo "make fuzz             read files changed at random, 20,000 of them (CASES=n, SEED=n for others)"
	@echo "make kills            kill workers, paralign or both at random moments, and look at the next check (docs/reliability.md)"
	@echo "make cheats           ports that want to pass paralign verify without being right, and honest ones (docs/verify.md)"
	@echo "make axe              the page before axe-core, in chromium"
	@echo "make page             how fast the page of a ResNet-50 with every operation opens and answers, in chromium"
	@echo "make docs             these pages as a site below .site, every warning an error"
	@echo "make jax              what the adapter of JAX has to pass, in an environment of its own (docs/jax.md)"
	@echo "make device           checks on a GPU against the CPU, with the interpreter INTERPRETER (benchmarks/device)"
	@echo "make large            check a decoder of a billion parameters block by block: time and memory (docs/streaming.md)"
	@echo "make bench            measure capture, comparison and the demo side by side with what people use now"

$(VENV)/stamp-demo: pyproject.toml constraints.txt $(wildcard native/*.*)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e '.[torch,paddle,example]'
	touch $@

$(VENV)/stamp-test: $(VENV)/stamp-demo
	$(BIN)/pip install -q -c constraints.txt -e '.[torch,paddle,example,dev]'
	touch $@

$(VENV)/stamp-bench: $(VENV)/stamp-test
	$(BIN)/pip install -q --no-deps -c constraints.txt torchvision
	touch $@

# what runs inside a user's environment: these tests run under Python 3.8 and the least numpy too, and need no framework there
PORTABLE := $(patsubst %,tests/unit/test_%.py,adapters_base capture capture_archives capture_discard capture_killed digest dtypes files \
	finding foreign init init_defaults masks protocol session sketch trainlog trees variables watchdog worker_data worker_tracing \
	worker_training worker_update)
LEAST_NUMPY := 1.19.3
# the oldest interpreter of the core, where there is one
LOWEST := $(firstword $(wildcard $(HOME)/.pyenv/versions/3.10*/bin/python) $(shell command -v python3.10 2>/dev/null))

.PHONY: lowest
lowest: lowest-core lowest-portable

# the core, with exactly the least versions that pyproject.toml promises
.PHONY: lowest-core
lowest-core:
ifeq ($(LOWEST),)
	@echo "NOT RUN: the core's tests with the least versions; there is no Python 3.10 here" && false
else
	$(LOWEST) -m venv .venv-lowest
	.venv-lowest/bin/pip install -q hypothesis ml-dtypes pytest pytest-timeout pytest-xdist reprod-log==1.0.1 safetensors scipy $$($(LOWEST) benchmarks/lowest.py pyproject.toml)
	PYTHONPATH=src .venv-lowest/bin/python -m pytest -q -n $(WORKERS) -m "not torch and not paddle and not slow" tests/unit tests/golden
endif

# the portable half, with Python 3.8 and the least numpy that `paralign doctor` asks for
.PHONY: lowest-portable
lowest-portable:
ifeq ($(OLDEST),)
	@echo "NOT RUN: the portable half's tests under Python 3.8; there is none here" && false
else
	$(OLDEST) -m venv .venv-lowest-portable
	.venv-lowest-portable/bin/pip install -q hypothesis pytest pytest-timeout numpy==$(LEAST_NUMPY)
	PYTHONPATH=src .venv-lowest-portable/bin/python -m pytest -q -c /dev/null --rootdir tests --import-mode=importlib $(PORTABLE)
endif

.venv-oldest/stamp:
ifneq ($(OLDEST),)
	-$(OLDEST) -c 'import sys; assert sys.version_info >= (3, 8)' && $(OLDEST) -m venv .venv-oldest && .venv-oldest/bin/pip install -q numpy
endif
	mkdir -p .venv-oldest && touch $@

# the guide's twelve steps: the program's own log of a training (3.10), then every stage; STAGES= names some of them
DEMO_STAGES := weights forward data metric loss optimizer backward init train infer distributed

demo: export PARALIGN_BREAK = $(BREAK)
demo: $(VENV)/stamp-demo
	$(COMPILED)
	$(BIN)/python $(DEMO)/prepare.py
	$(BIN)/python $(DEMO)/candidate/train.py --epochs 1 --output-dir $(DEMO)/candidate/output
	$(BIN)/paralign check $(DEMO) $(or $(STAGES),$(DEMO_STAGES)); code=$$?; $(BIN)/paralign status $(DEMO) || true; exit $$code

.PHONY: demo-informer
demo-informer: $(VENV)/stamp-demo
	$(BIN)/python examples/informer/prepare.py
	PARALIGN_BREAK=$(BREAK) $(BIN)/paralign check examples/informer $(STAGES)
	$(BIN)/paralign convert weights examples/informer/checkpoint.pth examples/informer/data/model_state.pdparams --model examples/informer --overwrite
	PARALIGN_BREAK=$(BREAK) $(BIN)/paralign check examples/informer/initial.toml
	PARALIGN_BREAK=$(BREAK) $(BIN)/paralign check examples/informer train
	$(BIN)/paralign logbook examples/informer --without 3.8 --without 3.10 --without 3.12

test: $(VENV)/stamp-test .venv-oldest/stamp lint types unit

lint: $(VENV)/stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/stamp-test
	$(BIN)/mypy

unit: $(VENV)/stamp-test .venv-oldest/stamp
	$(COMPILED)
	$(BIN)/python $(DEMO)/prepare.py
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --nurseries $(ARGS)

quick: $(VENV)/stamp-test
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not torch and not paddle and not slow" tests/unit

bench: $(VENV)/stamp-bench .padiff/stamp
	$(BIN)/python $(DEMO)/prepare.py
	$(BIN)/python benchmarks/speed/run.py --padiff .padiff

.venv-zoo/stamp: benchmarks/zoo/zoo-requirements.txt benchmarks/zoo/zoo-formers-requirements.txt
	$(PYTHON) -m venv .venv-zoo
	.venv-zoo/bin/pip install -q 'setuptools<81'
	.venv-zoo/bin/pip install -q --no-deps -r benchmarks/zoo/zoo-requirements.txt
	.venv-zoo/bin/pip install -q --no-deps --upgrade --target .venv-zoo/formers -r benchmarks/zoo/zoo-formers-requirements.txt
	.venv-zoo/bin/pip install -q --no-deps -e .
	touch $@

axe: $(VENV)/stamp-test
	npm install --silent --no-audit --no-fund --prefix .venv-axe axe-core@4
	$(BIN)/pytest -q tests/unit/test_report_access.py

page: $(VENV)/stamp-test
	$(BIN)/python benchmarks/page.py $(ARGS)

.venv-docs/stamp: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/pip install -q -e '.[docs]'
	touch $@

docs: .venv-docs/stamp
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --clean

.venv-jax/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-jax
	.venv-jax/bin/pip install -q -c constraints.txt -e '.[torch,jax,dev]'
	touch $@

jax: .venv-jax/stamp
	.venv-jax/bin/pytest -q tests/conformance tests/e2e/test_jax_adapter.py -k jax

training-faults: $(VENV)/stamp-test
	$(BIN)/python benchmarks/training_faults.py $(ARGS)

init-rates: $(VENV)/stamp-test
	$(BIN)/python benchmarks/init_rates.py

convert-sources: $(VENV)/stamp-bench
	$(BIN)/python benchmarks/convert_sources.py $(ARGS)

convert-training: $(VENV)/stamp-bench
	$(BIN)/python benchmarks/convert_training.py $(ARGS)

compat-alternative: $(VENV)/stamp-bench
	$(BIN)/python benchmarks/compat_alternative.py $(ARGS)

convert-tests: $(VENV)/stamp-bench
	@if [ -z "$(TESTS)" ]; then echo "TESTS is empty: name the folder tests of a checkout of PaddlePaddle/PaConvert"; exit 2; fi
	$(BIN)/python benchmarks/paconvert_tests/table.py "$(TESTS)" $(ARGS)

convert-code: $(VENV)/stamp-bench
	$(BIN)/python benchmarks/convert_code.py $(ARGS)

catalogue: $(VENV)/stamp-bench
	$(BIN)/python benchmarks/catalogue.py --write docs/catalogue.md

zoo: .venv-zoo/stamp
	.venv-zoo/bin/python benchmarks/zoo/zoo.py --write docs/zoo.md

layers: $(VENV)/stamp-test
	$(BIN)/python benchmarks/layers/layers.py --write docs/layers.md

# a seed that nobody has seen, unless one is given
composed: SEED ?= $(shell date +%s)
composed: COUNT ?= 100
composed: $(VENV)/stamp-test
	$(BIN)/python benchmarks/layers/composed.py --seed $(SEED) --count $(COUNT) --write docs/composed.md

.padiff/stamp: $(VENV)/stamp-bench
	$(BIN)/pip install -q --no-deps --target .padiff padiff==0.2.0 pyyaml
	touch $@

# ids of line rules that the three benchmarks of faults leave out, separated by commas
faults mutants library-mutants: export PARALIGN_ABLATE = $(ABLATE)

faults: $(VENV)/stamp-bench .padiff/stamp
	$(BIN)/python benchmarks/faults/verify.py
	$(BIN)/python benchmarks/faults/run.py --padiff .padiff --write docs/faults.md

rules: $(VENV)/stamp-test
	$(BIN)/python benchmarks/faults/rules.py --write docs/rules.md $(ARGS)

unseen: $(VENV)/stamp-test
	$(BIN)/python benchmarks/unseen/run.py --write docs/unseen.md $(ARGS)

unseen-metrics: $(VENV)/stamp-test
	$(BIN)/python benchmarks/unseen/metrics.py $(ARGS)

mutants: SEED ?= 21
mutants: COUNT ?= 4
mutants: $(VENV)/stamp-bench
	$(BIN)/python benchmarks/faults/mutate.py --seed $(SEED) --count $(COUNT) --write docs/mutants.md

library-mutants: SEED ?= 22
library-mutants: COUNT ?= 3
library-mutants: .venv-zoo/stamp
	.venv-zoo/bin/python benchmarks/faults/library.py --seed $(SEED) --count $(COUNT) --write docs/library-mutants.md

.PHONY: device
device:
	$(or $(INTERPRETER),$(PYTHON)) benchmarks/device/run.py $(ARGS)

.PHONY: large
large: $(VENV)/stamp-test
	$(BIN)/python benchmarks/streaming/large.py $(ARGS)

fuzz: SEED ?= 0
fuzz: CASES ?= 20000
fuzz: $(VENV)/stamp-test
	$(BIN)/python tests/hostile/fuzz.py --cases $(CASES) --seed $(SEED)

kills: SEED ?= 1
kills: $(VENV)/stamp-test
	$(BIN)/python benchmarks/reliability/kills.py --seed $(SEED) --jobs $(WORKERS)

cheats: $(VENV)/stamp-test
	$(BIN)/python benchmarks/verification/cheats.py --jobs $(WORKERS)
	$(BIN)/python benchmarks/verification/cheats.py --jobs $(WORKERS) --training
