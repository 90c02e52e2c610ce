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
TF220 := .venv-tensorflow-2.20
KFP216 := .venv-kfp-2.16
PYTEST := python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
UV_VERSION := 0.13.9
BEAM_VERSION := 2.77.0
FAKE_GCS_VERSION := v1.56.1
ACTIONLINT_VERSION := v1.7.12
TRAINING_OPERATOR_VERSION := v1.9.3
RUNS ?= runs
NOTEBOOK ?= docs/use-the-model.ipynb
FASHION_MNIST ?= $(or $(FASHION_MNIST_DIR),fashion-mnist)
KILLS ?= 200
ROUNDS ?= 3
# --universal serves Python 3.11 and later; with "fewest", every Python gets the same version of a package.
LOCK = $(BIN)/uv pip compile --quiet --python-version 3.11 --fork-strategy fewest --generate-hashes --no-annotate \
  --custom-compile-command 'make lock' $(UPGRADE)
# The images have Debian 12 (glibc 2.36) on x86_64, and the versions of development wherever it has a package too.
LOCK_IMAGE = $(LOCK) --python-platform x86_64-manylinux_2_36 pyproject.toml
IMAGE_LOCKS := $(addprefix requirements/, preprocess.txt train-cpu.txt train-gpu.txt train-tpu.txt)
# Tests that depend on TensorFlow's version and would run on a TPU: step, networks, strategy, checkpoints. What replicas
# compute is compared there by the selfcheck alone; the long trajectories are for one version.
STEP_TESTS := $(addprefix tests/unit/components/, core/distributed/test_global_batch.py core/networks/test_gan.py \
  core/artifacts/test_checkpoints.py train/test_losses.py train/test_step.py train/test_second_order.py embed/test_classifier.py selfcheck)
# Tests that call kfp's compiler.
COMPILE_TESTS := $(addprefix tests/unit/pipeline/, cli/test_compile.py test_goldens.py test_step_table.py profiles)
# Tests that use its client.
CLIENT_TESTS := $(addprefix tests/unit/pipeline/cluster/, test_run_commands.py kubeflow/test_connection.py kubeflow/test_runs.py kubeflow/test_schedules.py vertex)

# Python keeps what it compiled: otherwise every process compiles TensorFlow again, for seconds.
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

# Environments of their own, each by the name of its lock, which is complete: soak has a clock that can be wrong, bench
# PyTorch, without what its wheel asks for on Linux and never loads on a CPU.
.venv-%/installed: requirements/%.txt | $(INSTALLED)
	$(PYTHON) -m venv .venv-$*
	$(BIN)/uv pip install --python .venv-$*/bin/python --no-deps --require-hashes -r $<
	touch $@

demo: install ## Run the whole pipeline on handwritten digits and publish a first champion
	$(BIN)/wgan run --root $(RUNS)/demo --config examples/digits.yaml

test: install ## Run the tests
	$(BIN)/$(PYTEST) -m "not docker and not slow and not long and not flink and not kubeflow"

test-slow: install ## Run the tests that take long: retraining, and trainings of several processes or replica counts
	$(BIN)/$(PYTEST) -m "slow and not long"

test-long: install ## Run the tests that take minutes each: signals in every phase, rollbacks, other replicas, retraining
	$(BIN)/$(PYTEST) -m long

test-random: install ## Run the property tests with random examples, ROUNDS=3 times; repeat a failure with SEED=N ROUNDS=1
	@first=$(or $(SEED),$$(date +%s)); for seed in $$(seq $$first $$((first + $(ROUNDS) - 1))); do \
	  echo "make test-random SEED=$$seed ROUNDS=1"; \
	  $(BIN)/$(PYTEST) -m "hypothesis and not docker" \
	    --hypothesis-profile=random --hypothesis-seed=$$seed || exit 1; \
	done

soak: install .venv-soak/installed ## Kill, damage and starve everything: KILLS=200 SEED=0; an hour (docs/evidence/reliability.md)
	$(BIN)/python -m tests.faults.soak --kills $(KILLS) --seed $(or $(SEED),0)

test-docker: install ## Run the tests of the images: they need a Docker engine, and make images before
	$(BIN)/$(PYTEST) -m "docker and not long" tests/system/docker tests/system/test_same_in_docker.py \
	  tests/unit/pipeline/local/test_containers.py

test-kubeflow: install ## Run a pipeline's story on the server of KF_PIPELINES_ENDPOINT, or without one on ours: ROOT= CLAIM= IMAGES= KUBE_CONTEXT= (docs/kubeflow.md)
	@mkdir -p build
	@[ -n "$$KF_PIPELINES_ENDPOINT$(KUBE_CONTEXT)" ] || \
	  echo "This is no Kubeflow: it runs on the contract server, whose worker starts the stages as processes here."
	ROOT=$(ROOT) CLAIM=$(CLAIM) IMAGES=$(IMAGES) KUBE_CONTEXT=$(KUBE_CONTEXT) $(BIN)/python -m pytest -m "$(or $(MARKS),kubeflow)" tests/system/kubeflow \
	  -rA --show-capture=no --junitxml=build/kubeflow.xml

test-flink: install build/flink/distribution/pyflink build/flink/job-server/job-server.jar ## Run the stage on a real Flink cluster on loopback, and in containers if there are images (docs/beam-runners.md)
	$(BIN)/python -m pytest -m flink tests/system

build/flink/distribution/pyflink: requirements/flink.txt | $(INSTALLED)
	$(BIN)/uv pip install --no-deps --require-hashes --target build/flink/distribution -r $<
	touch $@

build/flink/job-server/job-server.jar: tests/system/runners/flink_job_server/pom.xml
	@command -v java mvn >/dev/null || { echo "make test-flink needs Java 17 and Maven, such as Debian's" \
	  "openjdk-17-jre-headless and maven" >&2; exit 64; }
	mvn --batch-mode --quiet --file $< package

test-tf220: $(TF220)/installed ## Run the tests of the step on TensorFlow 2.20, the newest for TPUs
	$(TF220)/bin/$(PYTEST) -m "not long" \
	  -k "not trajectory and not planted_fault" $(STEP_TESTS)

test-pythons: install ## Run the tests that depend on Python, and compare a small run, on each Python from 3.11 to 3.13 found
	$(BIN)/python -m tests.system.pythons

test-kfp216: $(KFP216)/installed ## Run the tests of compiling and submitting on kfp 2.16.1 and on the newest client of Vertex
	$(KFP216)/bin/python -m pytest -rs -n 2 --dist loadfile --confcutdir tests/unit/pipeline $(COMPILE_TESTS) $(CLIENT_TESTS)

prove: install ## Run what takes too long for the tests: NAME=replicas, a module of tests/proofs (docs/verification.md)
	$(BIN)/python -m tests.proofs $(NAME) --source $(FASHION_MNIST) $(if $(BASE),--base $(BASE)) $(if $(TURNS),--turns $(TURNS))

prove-tpu: $(TF220)/installed .venv-tpu-compiler/installed install ## Compile training with the TPU compiler, without a TPU; ALL=1: every variant
	$(BIN)/python -m tests.proofs.tpu --tensorflow $(TF220)/bin/python --compiler .venv-tpu-compiler/bin/python $(if $(ALL),--all)
	$(if $(ALL),$(MAKE) .venv-train-tpu/installed)
	$(if $(ALL),TPU_SKIP_MDS_QUERY=1 .venv-train-tpu/bin/python -m tests.proofs.tpu.lower)

prove-gpu: ## Run all that needs a GPU, about ten minutes of it: PARTS="step bits", FASHION_MNIST=FOLDER, DEVICE=cpu to test the program (docs/verification.md)
	@$(or $(PYTHON),python3) -m tests.proofs.gpu --check $(if $(DEVICE),--device $(DEVICE))
	$(MAKE) install $(if $(filter cpu,$(DEVICE)),.venv-bench/installed,.venv-train-gpu/installed .venv-bench-gpu/installed)
	FASHION_MNIST_DIR=$(FASHION_MNIST) $(BIN)/python -m tests.proofs.gpu \
	  $(if $(filter cpu,$(DEVICE)),--device cpu --tensorflow $(BIN)/python --torch .venv-bench/bin/python) $(if $(PARTS),--parts $(PARTS))

lint: install ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin components pipeline wgan_gp_pipeline
	$(BIN)/hadolint docker/Dockerfile

format: install ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

go-tools: ## Build with Go what tests and CI use if it is there: an emulator of Cloud Storage, Beam's Prism, actionlint
	-GOBIN=$(CURDIR)/build go install github.com/fsouza/fake-gcs-server@$(FAKE_GCS_VERSION)
	-GOBIN=$(CURDIR)/build go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM_VERSION)
	-GOBIN=$(CURDIR)/build go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT_VERSION)
	-folder=$$(go mod download -json github.com/kubeflow/training-operator@$(TRAINING_OPERATOR_VERSION) | \
	  sed -n 's/.*"Dir": "\(.*\)",/\1/p') && mkdir -p build && \
	  install -m 644 "$$folder/manifests/base/crds/kubeflow.org_tfjobs.yaml" build/tf-job-schema.yaml

images: install ## Build images: IMAGES="preprocess train-cpu" (these two unless given), train-gpu, train-tpu
	$(BIN)/python -m docker.build images $(IMAGES)

beam-sdk: ## Build Beam's boot with Go as wgan/beam-sdk, for BEAM_SDK=, where the image of Beam's SDK cannot be pulled
	GOBIN=$(CURDIR)/build/beam-sdk CGO_ENABLED=0 go install -trimpath -ldflags=-s \
	  github.com/apache/beam/sdks/v2/python/container@v$(BEAM_VERSION)
	printf 'FROM scratch\nCOPY container /opt/apache/beam/boot\n' >build/beam-sdk/Dockerfile
	DOCKER_BUILDKIT=1 $${DOCKER:-docker} build --quiet --tag wgan/beam-sdk:$(BEAM_VERSION) build/beam-sdk

push: install ## Build IMAGES on the pinned base, push them to REGISTRY=host/path, write build/images.json
	@test -n "$(REGISTRY)" || { echo "make push needs REGISTRY=host/path" >&2; exit 64; }
	$(BIN)/python -m docker.build push $(REGISTRY) $(IMAGES)

audit: .venv-audit/installed ## Look for known vulnerabilities of what the images hold; needs the index's JSON API
	for lock in $(IMAGE_LOCKS); do \
	  .venv-audit/bin/pip-audit --strict --disable-pip --require-hashes --requirement $$lock || \
	  { echo "make audit: $$lock has known vulnerabilities, or the index could not be asked: see above" >&2; exit 1; }; \
	done

fuzz: .venv-fuzz/installed ## Fuzz what reads bytes of strangers, each target for SECONDS=60
	for target in $$($(BIN)/python -c 'from tests.fuzz.readers import READERS; print(*READERS)'); do \
	  .venv-fuzz/bin/python -m tests.fuzz $$target $(or $(SECONDS),60) || exit 1; \
	done

compile: install ## Write the Kubeflow package to build/pipeline.yaml
	$(BIN)/wgan compile --target kfp --allow-tags --output build/pipeline.yaml

goldens: install ## Write what tests compare: what profiles put into packages, all messages, docs/reference.md
	$(BIN)/python -m tests.unit.pipeline.packages
	$(BIN)/python -m tests.test_sentences
	$(BIN)/python -m tests.test_reference

notebook: .venv-notebook/installed ## Write docs/use-the-model.ipynb from its page, and run it on make demo
	PYTHONPATH=.:$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  .venv-notebook/bin/python -m tests.test_notebook $(NOTEBOOK)

docs: .venv-docs/installed ## Build the documentation as a site in build/site; broken links are errors
	rm -rf build/site-source && mkdir -p build/site-source
	git ls-files '*.md' docs examples benchmarks/judging/results LICENSE | tar c -T - | tar x -C build/site-source
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

bench: install .venv-bench/installed ## Measure speed and memory; a quarter of an hour on 2 idle cores
	$(BIN)/python -m benchmarks.training.step --critic_steps 1
	$(BIN)/python -m benchmarks.training.step --critic_steps 5 --rounds 5
	$(BIN)/python -m benchmarks.training.replicas
	$(BIN)/python -m benchmarks.training.stage
	$(BIN)/python -m benchmarks.judging.evaluation

bench-preprocess: install ## Measure the preprocess stage beside a plain loop
	$(BIN)/python -m benchmarks.data.preprocess

lock: install ## Pin every dependency again, with hashes; UPGRADE=--upgrade takes the newest
	$(LOCK) --universal --extra vertex --extra preprocess --extra cpu --group dev pyproject.toml -o requirements/dev.txt
	$(LOCK) --universal --extra training --group tensorflow-2-20 pyproject.toml -o requirements/tensorflow-2.20.txt
	$(LOCK) --universal --extra vertex --group kfp-2-16 pyproject.toml -o requirements/kfp-2.16.txt
	$(LOCK) --universal --group pyproject.toml:bench -o requirements/bench.txt \
	  --no-emit-package nvidia-cuda-cccl --no-emit-package nvidia-cusolver --no-emit-package nvidia-nvtx \
	  --no-emit-package cuda-bindings --no-emit-package cuda-pathfinder --no-emit-package triton
	$(LOCK) --universal --group pyproject.toml:bench -c requirements/bench.txt -o requirements/bench-gpu.txt
	$(LOCK) --universal --group pyproject.toml:audit -o requirements/audit.txt
	$(LOCK) --universal --group pyproject.toml:fuzz -c requirements/dev.txt -o requirements/fuzz.txt
	$(LOCK) --universal --group pyproject.toml:flink -o requirements/flink.txt
	$(LOCK) --universal --group pyproject.toml:soak -o requirements/soak.txt
	$(LOCK) --universal --group pyproject.toml:formats -o requirements/formats.txt
	$(LOCK) --universal --group pyproject.toml:notebook -c requirements/dev.txt -o requirements/notebook.txt
	$(LOCK) --universal --group pyproject.toml:docs -o requirements/docs.txt
	$(LOCK) --universal --group pyproject.toml:tpu-compiler -o requirements/tpu-compiler.txt
	$(LOCK_IMAGE) --extra preprocess --excludes requirements/preprocess-excludes.txt -c requirements/dev.txt \
	  -o requirements/preprocess.txt
	$(LOCK_IMAGE) --extra cpu --excludes requirements/train-excludes.txt -c requirements/dev.txt \
	  -o requirements/train-cpu.txt
	$(LOCK_IMAGE) --extra gpu --excludes requirements/train-excludes.txt -c requirements/dev.txt \
	  -o requirements/train-gpu.txt
	$(LOCK_IMAGE) --extra tpu --excludes requirements/train-excludes.txt -c requirements/tensorflow-2.20.txt \
	  -o requirements/train-tpu.txt # with what the step is tested with on TensorFlow 2.20

.PHONY: help install demo test test-slow test-long test-random soak test-docker test-kubeflow test-flink test-tf220 \
  test-pythons test-kfp216 prove prove-gpu prove-tpu lint format go-tools images beam-sdk push audit fuzz compile goldens \
  notebook docs bench bench-preprocess lock
