# What a person types. Each target does all the set-up that it needs.
.DEFAULT_GOAL := help
.PHONY: help demo demo-session demo-sharded demo-stragglers demo-slipstream test test-gpu check build deb wheel sdist bench fuzz guards asan tsan \
  sim soak kills format monitor docs docs-site

help:  ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1:\2/p' Makefile | while IFS=: read -r target what; do \
	  printf 'make %-15s %s\n' "$$target" "$$what"; done

demo: .programs  ## Train ResNet-18 on real digits over two workers on this machine.
	@tools/demo.sh

demo-stragglers: .programs  ## Train through random stalls and a node that becomes slow.
	@tools/demo-stragglers.sh

demo-session: .programs  ## Train by a script of one's own: a rank is killed, a node drained.
	@tools/demo-session.sh

demo-sharded: .programs  ## Train a model in shards: a rank is killed, a node drained.
	@tools/demo-sharded.sh

demo-slipstream: .programs  ## Train two jobs under the same stalls: one waits for them.
	@tools/demo-slipstream.sh

test: .setup  ## Run all tests; ends with a line that counts them.
	@tools/test.sh

test-gpu:  ## Run the tests and the benchmark that need a GPU, here or out of a carried bundle.
	@tools/test-gpu.sh

check: .setup  ## Check format, naming, locking, scripts and the wire. CHECK=NAME runs one.
	@tools/check.sh $(CHECK)

build: .setup  ## Build the programs into build/bin; CUDA=1 for those with GPUs, too.
	@tools/build.sh $(if $(CUDA),dist_cuda,dist)

deb: .setup  ## Build Debian packages into build/deb.
	@tools/deb.sh

wheel: .setup  ## Build wheels for pip into build/wheel; ALL=1 for all Pythons and torchs, PYTHON=... for one.
	@ALL=$(ALL) PYTHON=$(PYTHON) tools/wheel.sh

sdist:  ## Pack the sources for pip into build/sdist.
	@tools/sdist.sh

bench: .setup  ## Run one benchmark beside its peer: NAME=step, loader, hsgd, ...
	@tools/bench.sh $(NAME)

monitor: build  ## Watch the development cluster in Prometheus, and in Grafana if installed.
	@tools/monitor.sh

fuzz: .setup  ## Fuzz what takes input from elsewhere: TARGET=job_file (default: all), SECONDS=60.
	@tools/fuzz.sh $(TARGET) $(SECONDS)

guards: .setup  ## Run sanitizers, tidy, fuzzing on what changed: SINCE=REVISION.
	@tools/guards.sh $(SINCE)

asan: .setup  ## Run all tests under ASan and UBSan; or TARGETS="//common/...".
	@tools/sanitize.sh asan $(TARGETS)

tsan: .setup  ## Run all tests under TSan; or TARGETS="//common/...".
	@tools/sanitize.sh tsan $(TARGETS)

sim: .setup  ## Play simulated histories of a cluster: SEEDS=100000.
	@tools/sim.sh $(SEEDS)

soak: .setup  ## Have a cluster go through all that happens to one: MINUTES=60.
	@tools/soak.sh $(MINUTES)

kills: .setup  ## Kill ranks of sessions at random moments: KILLS=200 SEED=1.
	@tools/kills.sh $(or $(KILLS),200) $(SEED)

format: .setup  ## Format all C++ files in place.
	@tools/check.sh --fix format

docs: .setup  ## Write the parts of docs/ that are made of the code.
	@tools/docs.sh

docs-site: .setup  ## Build the documents as a site with search, in build/site.
	@tools/docs-site.sh

.PHONY: .setup
.setup:
	@tools/setup.sh

# What the demos start, and no more.
.PHONY: .programs
.programs: .setup
	@tools/build.sh demo
