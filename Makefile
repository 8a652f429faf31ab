# Two commands do everything on a fresh Debian or Ubuntu machine, as root: `make demo` and `make test`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Debian packages that targets need; installed where missing.
PACKAGES := openssh-server openssh-client nftables iproute2 iputils-ping procps gcc libc6-dev python3-venv
test lab-test: PACKAGES += ufw iptables firewalld dbus systemd sudo clustershell debootstrap systemd-container \
	slurmctld slurmd slurm-client chromium groff-base
bench bench-fleet: PACKAGES += clustershell
# Labs spend most of their time waiting, so two test files run at a time. The tests of one file share a lab and a worker.
WORKERS ?= -n 2 --dist loadfile
# Keep compiled files, whatever the caller's environment says. Otherwise every worker rewrites the asserts of all tests
# before its first one, and every command that a test starts compiles what was changed since `make venv`.
unexport PYTHONDONTWRITEBYTECODE
# A directory with captures of the vendors' tools, for pytest --captures.
CAPTURES ?=

.PHONY: demo venv test unit lint lab-test bench bench-fleet gpu docs packages clean help

help:
	@echo "make demo    start a virtual 2 x 8 cluster, show what fails, configure it, test it (root)"
	@echo "make test    run lint, types, import rules, unit and lab tests (root)"
	@echo "make venv    create the virtual environment .venv, with PyTorch"
	@echo "make unit    run the tests that need neither root nor a lab"
	@echo "make bench   measure the figures of benchmarks/README.md (root)"
	@echo "make bench-fleet  measure checks of 1,000 and 4,000 simulated hosts (root)"
	@echo "make gpu     run preflight on this machine's NVIDIA GPUs, and write docs/gpu-run.md"
	@echo "make docs    build this documentation as a site, in site/"
	@echo "make clean   remove the virtual environment, the site and the caches"

demo: $(VENV)/.ready packages
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash playbooks/demo.sh

venv: $(VENV)/.ready

# A lab's speeds and deadlines depend on what else the machine does. Tests that failed beside others run once more by
# themselves, and have to pass then; their first failures stay in the output.
AGAIN = { [ $$? = 1 ] && echo "The failed tests, once more and by themselves:" \
	&& $(BIN)/pytest --last-failed --last-failed-no-failures=none --maxfail=3 $(1); }

test: $(VENV)/.ready packages lint
	rm -rf .pytest_cache
	$(BIN)/pytest $(WORKERS) --durations=30 $(if $(CAPTURES),--captures=$(CAPTURES)) -m "not alone" \
		|| $(call AGAIN,$(if $(CAPTURES),--captures=$(CAPTURES)) -m "not alone")
	$(BIN)/pytest -m alone tests/lab || $(call AGAIN,-m alone tests/lab)

unit: $(VENV)/.ready
	$(BIN)/pytest $(WORKERS) tests/unit

lab-test: $(VENV)/.ready packages
	rm -rf .pytest_cache
	$(BIN)/pytest $(WORKERS) -m "not alone" tests/lab || $(call AGAIN,-m "not alone" tests/lab)
	$(BIN)/pytest -m alone tests/lab || $(call AGAIN,-m alone tests/lab)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/structure.py

# MkDocs' theme warns of what comes after it, at every build.
docs: $(VENV)/.ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# GPU_PYTHON: a Python with a torch that uses CUDA. Without an idle GPU, nothing runs (error 3).
GPU_PYTHON ?= $(BIN)/python
gpu: $(VENV)/.ready
	$(BIN)/python -m benchmarks.gpu --python $(GPU_PYTHON)

bench: $(VENV)/.ready packages
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks

bench-fleet: $(VENV)/.ready packages
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.scale --hosts 1000 --others
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.scale --hosts 4000
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m benchmarks.scale --hosts 4000 --bad
	$(BIN)/python -m benchmarks.agents

# Where systemd runs, firewalld closes the machine as soon as it is installed. So it is masked, and only the lab uses it.
# To use it for the machine, too: `systemctl unmask firewalld`.
packages:
	@missing=$$(dpkg-query -W -f '$${Package} $${db:Status-Status}\n' $(PACKAGES) 2>/dev/null \
		| awk '$$2 == "installed" { print $$1 }' | sort > .packages.have; \
		printf '%s\n' $(PACKAGES) | sort | comm -23 - .packages.have; rm -f .packages.have); \
	if [ -n "$$missing" ]; then \
		if [ "$$(id -u)" != 0 ]; then echo "missing packages: $$missing; run as root, or install them" >&2; exit 2; fi; \
		echo "installing" $$missing; \
		case "$$missing" in *firewalld*) mkdir -p /etc/systemd/system; \
			ln -s /dev/null /etc/systemd/system/firewalld.service 2> /dev/null || true;; esac; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing \
			> /dev/null; \
	fi

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "preflight needs Python 3.11 or newer; say which with make PYTHON=python3.12 …" >&2; exit 2; }
	@$(PYTHON) -m venv --help > /dev/null 2>&1 && $(PYTHON) -c 'import ensurepip' 2> /dev/null || $(MAKE) packages
	@echo "making the virtual environment $(VENV) (torch is the large part)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install -qq --disable-pip-version-check torch==2.13.0
	@$(BIN)/pip install -qq --disable-pip-version-check -e '.[probe,dev]'
	@$(BIN)/python -m compileall -q preflight
	@touch $@

clean:
	rm -rf $(VENV) site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache *.egg-info
