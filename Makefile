# Every verb works on a fresh machine with Python 3.11, 3.12 or 3.13 and a package registry: the environment is made on
# first use, and again when PYTHON names another version.

VENV := .venv
BIN := $(VENV)/bin
PRINT_VERSION := import sys; (3, 11) <= sys.version_info < (3, 14) and print("%d.%d" % sys.version_info[:2])
# The environment's interpreter, else the first of these that runs: a shim of pyenv may only say that it cannot.
PYTHON := $(or $(PYTHON),$(shell for python in $(realpath $(BIN)/python) python3.11 python3.12 python3.13 python3; do \
  [ -z "$$($$python -c '$(PRINT_VERSION)' 2>/dev/null)" ] || { echo $$python; break; }; done))
PYTHON_VERSION := $(if $(PYTHON),$(shell $(PYTHON) -c '$(PRINT_VERSION)'))
INSTALLED := $(VENV)/installed-$(PYTHON_VERSION)
TF220 := .venv-tf220
KFP216 := .venv-kfp216
BENCH_BIN := .venv-bench/bin
UV_VERSION := 0.13.9
BEAM_VERSION := 2.77.0
FAKE_GCS_VERSION := v1.56.1
RUNS ?= runs
FASHION_MNIST ?= fashion-mnist
KILLS ?= 200
ROUNDS ?= 3
# --universal serves Python 3.11 and later; with "fewest", every Python gets the same version of a package.
LOCK = $(BIN)/uv pip compile --quiet --python-version 3.11 --fork-strategy fewest --generate-hashes --no-annotate \
  --custom-compile-command 'make lock' $(UPGRADE)
# The images have Debian 12 (glibc 2.36) on x86_64, and the versions of development wherever it has a package too.
LOCK_IMAGE = $(LOCK) --python-platform x86_64-manylinux_2_36 pyproject.toml
IMAGE_LOCKS := $(addprefix requirements/, preprocess.txt train-cpu.txt train-gpu.txt train-tpu.txt)
# Whatever depends on TensorFlow's version and would run on a TPU: step, networks, strategy, checkpoints. What replicas
# compute is compared there by the selfcheck alone; the long trajectories are for one version.
STEP_TESTS := $(addprefix tests/components/, test_distributed_step.py test_networks.py test_checkpoints.py \
  train/test_losses.py train/test_step.py train/test_second_order.py embed/test_training.py selfcheck)
# Whatever calls kfp's compiler.
COMPILE_TESTS := $(addprefix tests/pipeline/test_, compile_command.py goldens.py graph.py profiles.py)
# Whatever goes through its client.
CLIENT_TESTS := $(addprefix tests/pipeline/cluster/test_, submit.py kubeflow_connection.py schedule_commands.py)

# Python keeps what it compiled, whatever the shell says: TensorFlow takes seconds to compile, in every process anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

install: $(INSTALLED) ## Make the environment in .venv from the lock: PYTHON=python3.13

$(INSTALLED): requirements/dev.txt pyproject.toml
	@[ -n "$(PYTHON_VERSION)" ] || \
	  { echo "make install needs Python 3.11, 3.12 or 3.13; name one with PYTHON=/path/to/python3.12" >&2; exit 64; }
	[ -e $@ ] || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(BIN)/uv pip install --python $(BIN)/python --require-hashes -r requirements/dev.txt
	$(BIN)/uv pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

demo: install ## Run the whole pipeline on handwritten digits and publish a first champion
	$(BIN)/wgan run --root $(RUNS)/demo --source digits --height 16 --width 16 \
	  --batch_size 32 --critic_steps 2 --steps 3500 --sample_every 500 --classifier_epochs 20 --seed 1 \
	  --uncertified judge --distance_limit 0.15 \
	  --class_distance_limit 0.3 --class_ratio_limit 0.2 --class_coverage_limit 0

test: install ## Run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not docker and not slow and not long and not flink"

test-slow: install ## Run the tests that take long: retraining, and trainings of several processes or replica counts
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m slow

test-long: install ## Run the tests that take minutes each: signals in every phase, roll-backs, other replicas, retraining
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m long

test-random: install ## Run the property tests with random examples, ROUNDS=3 times; repeat a failure with SEED=N ROUNDS=1
	@first=$(or $(SEED),$$(date +%s)); for seed in $$(seq $$first $$((first + $(ROUNDS) - 1))); do \
	  echo "make test-random SEED=$$seed ROUNDS=1"; \
	  $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "hypothesis and not docker and not flink" \
	    --hypothesis-profile=random --hypothesis-seed=$$seed || exit 1; \
	done

soak: install .venv-soak/installed ## Kill, damage and starve everything: KILLS=200 SEED=0; an hour (docs/reliability.md)
	$(BIN)/python -m tests.soak --kills $(KILLS) --seed $(or $(SEED),0)

# A clock that can be wrong, for whatever tests that nothing is decided by it.
.venv-soak/installed: requirements/soak.txt | $(INSTALLED)
	$(BIN)/python -m venv .venv-soak
	$(BIN)/uv pip install --python .venv-soak/bin/python --require-hashes -r requirements/soak.txt
	touch $@

test-docker: install ## Run the tests of the images: they need a Docker engine, and make images before
	$(BIN)/python -m pytest -m docker tests/docker tests/pipeline/test_containers.py tests/test_same_in_docker.py

test-flink: install build/flink/distribution/pyflink build/flink/job-server/job-server.jar ## Run the stage on a real Flink cluster on loopback (docs/runners.md)
	$(BIN)/python -m pytest -m flink tests/runners

build/flink/distribution/pyflink: requirements/flink.txt | $(INSTALLED)
	$(BIN)/uv pip install --no-deps --require-hashes --target build/flink/distribution -r $<
	touch $@

build/flink/job-server/job-server.jar: tests/runners/flink_job_server/pom.xml
	@command -v java mvn >/dev/null || { echo "make test-flink needs Java 17 and Maven, such as Debian's" \
	  "openjdk-17-jre-headless and maven" >&2; exit 64; }
	mvn --batch-mode --quiet --file $< package

test-tf220: $(TF220)/installed ## Run the tests of the step on TensorFlow 2.20, the newest for TPUs
	$(TF220)/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not long" \
	  -k "not trajectory and not mistake and not told" $(STEP_TESTS)

$(TF220)/installed: requirements/tensorflow-2.20.txt | $(INSTALLED)
	$(BIN)/python -m venv $(TF220)
	$(BIN)/uv pip install --python $(TF220)/bin/python --require-hashes -r requirements/tensorflow-2.20.txt
	touch $@

test-pythons: install ## Run the tests that depend on Python, and compare a small run, on each Python from 3.11 to 3.13 found
	$(BIN)/python -m tests.pythons

test-kfp216: $(KFP216)/installed ## Run the tests of compiling and submitting on kfp 2.16.1, the other version
	$(KFP216)/bin/python -m pytest -rs -n 2 --dist loadfile --confcutdir tests/pipeline $(COMPILE_TESTS) $(CLIENT_TESTS)

$(KFP216)/installed: requirements/kfp-2.16.txt | $(INSTALLED)
	$(BIN)/python -m venv $(KFP216)
	$(BIN)/uv pip install --python $(KFP216)/bin/python --require-hashes -r requirements/kfp-2.16.txt
	touch $@

prove-classifier: install ## Train the classifier on Fashion-MNIST on 1 and on 4 replicas: at least 0.91 (docs/proofs.md)
	$(BIN)/python -m tests.proofs.classifier --source $(FASHION_MNIST)

prove-verdict: install ## Count how often the verdict calls an equal model better on Fashion-MNIST (docs/proofs.md)
	$(BIN)/python -m tests.proofs.equal_models --source $(FASHION_MNIST)

prove-small-data: install ## Count how often garbage and healthy generators are promoted, by the number of test images (docs/small-data.md)
	$(BIN)/python -m tests.proofs.small_data --source $(FASHION_MNIST)

calibrate: install ## Train and judge healthy and sabotaged trainings on Fashion-MNIST; 40 minutes (docs/calibration.md)
	$(BIN)/python -m tests.proofs.calibration --source $(FASHION_MNIST)

prove-protocol: calibrate ## What a certificate cannot say by itself: a second classifier, real trainings (docs/certificate.md)
	$(BIN)/python -m tests.proofs.protocol

prove-replicas: install ## Print by how much 1, 2, 4 and 8 replicas differ (docs/proofs.md)
	$(BIN)/python -m tests.proofs.replicas

prove-threads: install ## Train with 1, 2, 4 and 8 threads, standard and exact, and print the bits (docs/proofs.md)
	$(BIN)/python -m tests.proofs.threads

prove-retraining: install ## Retrain on Fashion-MNIST with more data, nothing new and worse data (docs/proofs.md)
	$(BIN)/python -m tests.proofs.retraining --source $(FASHION_MNIST)

lint: install ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/hadolint docker/Dockerfile

format: install ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fake-gcs-server: ## Build a public emulator of Cloud Storage with Go, for tests/test_gcs_contract.py
	GOBIN=$(CURDIR)/build go install github.com/fsouza/fake-gcs-server@$(FAKE_GCS_VERSION)

prism: ## Build Beam's own local portable runner with Go, for tests/runners
	GOBIN=$(CURDIR)/build go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM_VERSION)

images: install ## Build images: IMAGES="preprocess train-cpu" (these two unless given), train-gpu, train-tpu
	$(BIN)/python -m docker.build images $(IMAGES)

beam-sdk: ## Build Beam's boot with Go as wgan/beam-sdk, for BEAM_SDK=, where the image of Beam's SDK cannot be pulled
	GOBIN=$(CURDIR)/build/beam-sdk CGO_ENABLED=0 go install -trimpath -ldflags=-s \
	  github.com/apache/beam/sdks/v2/python/container@v$(BEAM_VERSION)
	printf 'FROM scratch\nCOPY container /opt/apache/beam/boot\n' >build/beam-sdk/Dockerfile
	DOCKER_BUILDKIT=1 $${DOCKER:-docker} build --quiet --tag wgan/beam-sdk:$(BEAM_VERSION) build/beam-sdk

image-sizes: install ## Print what weighs how much in the images that IMAGES names
	@$(BIN)/python -m docker.build sizes $(IMAGES)

push: install ## Build IMAGES on the pinned base, push them to REGISTRY=host/path, write build/images.json
	@test -n "$(REGISTRY)" || { echo "make push needs REGISTRY=host/path" >&2; exit 64; }
	$(BIN)/python -m docker.build push $(REGISTRY) $(IMAGES)

prove-images: install ## Build IMAGES twice without what is cached, and compare every file (docs/containers.md)
	$(BIN)/python -m tests.proofs.images $(IMAGES)

audit: .venv-audit/installed ## Look for known vulnerabilities of what the images hold; needs the index's JSON API
	for lock in $(IMAGE_LOCKS); do \
	  .venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || \
	  { echo "make audit: $$lock has known vulnerabilities, or the index could not be asked: see above" >&2; exit 1; }; \
	done

.venv-audit/installed: requirements/audit.txt | $(INSTALLED)
	$(BIN)/python -m venv .venv-audit
	$(BIN)/uv pip install --python .venv-audit/bin/python --require-hashes -r requirements/audit.txt
	touch $@

fuzz: .venv-fuzz/installed ## Fuzz what reads bytes of strangers, each target for SECONDS=60
	for target in idx npz archive tfrecord example labels image manifest executor_input; do \
	  .venv-fuzz/bin/python -m tests.fuzz $$target $(or $(SECONDS),60) || exit 1; \
	done

.venv-fuzz/installed: requirements/fuzz.txt | $(INSTALLED)
	$(BIN)/python -m venv .venv-fuzz
	$(BIN)/uv pip install --python .venv-fuzz/bin/python --require-hashes -r requirements/fuzz.txt
	touch $@

compile: install ## Write the Kubeflow package to build/pipeline.yaml
	$(BIN)/wgan compile --target kfp --allow_tags --output build/pipeline.yaml

goldens: install ## Write the package that wgan run executes, and how the others differ from it
	$(BIN)/python -m tests.pipeline.packages

bench: install .venv-bench/installed ## Measure speed and memory; a quarter of an hour on 2 idle cores
	$(BIN)/python -m benchmarks.step --critic_steps 1
	$(BIN)/python -m benchmarks.step --critic_steps 5 --rounds 5
	$(BIN)/python -m benchmarks.pixel_convolutions
	$(BIN)/python -m benchmarks.replicas
	$(BIN)/python -m benchmarks.stage
	$(BIN)/python -m benchmarks.evaluation

bench-preprocess: install .venv-tfds/installed ## Measure the preprocess stage beside a plain loop and TensorFlow Datasets
	$(BIN)/python -m benchmarks.preprocess

.venv-tfds/installed: $(INSTALLED) requirements/tfds.txt
	$(PYTHON) -m venv .venv-tfds
	$(BIN)/uv pip install --python .venv-tfds/bin/python --require-hashes -r requirements/tfds.txt
	touch $@

# PyTorch alone, to compare with. The lock leaves out what PyTorch's wheel asks for on Linux and never loads on a CPU.
.venv-bench/installed: $(INSTALLED) requirements/bench.txt
	$(PYTHON) -m venv .venv-bench
	$(BIN)/uv pip install --python $(BENCH_BIN)/python --no-deps --require-hashes -r requirements/bench.txt
	touch $@

lock: install ## Pin every dependency again, with hashes; UPGRADE=--upgrade takes the newest
	$(LOCK) --universal --extra vertex --extra preprocess --extra cpu --group dev pyproject.toml -o requirements/dev.txt
	$(LOCK) --universal --extra training --group tensorflow-2-20 pyproject.toml -o requirements/tensorflow-2.20.txt
	$(LOCK) --universal --extra pipeline --group kfp-2-16 pyproject.toml -o requirements/kfp-2.16.txt
	$(LOCK) --universal --group pyproject.toml:bench -o requirements/bench.txt \
	  --no-emit-package nvidia-cuda-cccl --no-emit-package nvidia-cusolver --no-emit-package nvidia-nvtx \
	  --no-emit-package cuda-bindings --no-emit-package cuda-pathfinder --no-emit-package triton
	$(LOCK) --universal --group pyproject.toml:audit -o requirements/audit.txt
	$(LOCK) --universal --group pyproject.toml:fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(LOCK) --universal --group pyproject.toml:flink -o requirements/flink.txt
	$(LOCK) --universal --group pyproject.toml:soak -o requirements/soak.txt
	$(LOCK) --universal --group pyproject.toml:tfds --extra cpu pyproject.toml -c requirements/dev.txt -o requirements/tfds.txt
	$(LOCK_IMAGE) --extra preprocess --excludes requirements/preprocess-excludes.txt -c requirements/dev.txt \
	  -o requirements/preprocess.txt
	$(LOCK_IMAGE) --extra cpu --excludes requirements/train-excludes.txt -c requirements/dev.txt \
	  -o requirements/train-cpu.txt
	$(LOCK_IMAGE) --extra gpu --excludes requirements/train-excludes.txt -c requirements/dev.txt \
	  -o requirements/train-gpu.txt
	$(LOCK_IMAGE) --extra tpu --excludes requirements/train-excludes.txt -c requirements/tensorflow-2.20.txt \
	  -o requirements/train-tpu.txt # with what the step is tested with on TensorFlow 2.20

.PHONY: help install demo test test-pythons test-flink test-slow test-long test-random soak test-docker test-tf220 test-kfp216 prove-classifier prove-verdict prove-small-data calibrate prove-protocol \
  prove-replicas prove-threads prove-retraining lint format fake-gcs-server prism images beam-sdk image-sizes push prove-images audit fuzz compile goldens bench bench-preprocess lock
