# Needs Python >= 3.11, git and make. uv is used if present, else installed into .venv.
PYTHON ?= python3
UV_ON_PATH := $(shell command -v uv 2>/dev/null)
UV := $(if $(UV_ON_PATH),$(UV_ON_PATH),.venv/bin/uv)
export UV_PYTHON_DOWNLOADS := never
# Compiled once at installation: the todo server starts in a second instead of three (T-01).
export UV_COMPILE_BYTECODE := 1
export PYTHONWARNDEFAULTENCODING := 1
# Tests run in two processes per core, and start hundreds of others: modules are compiled once, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
WORKERS ?= auto
# Never installed beside ours: it is under another licence, and brings packages that ours must not need.
OFFICIAL := 'langgraph-cli[inmem]==0.4.40' 'langgraph-api==0.16.7'

.PHONY: setup demo dev test official check studio house format slow bench bench-core bench-tools bench-workflow bench-stalls bench-scale bench-studio tour soak coverage tool-pages reference docs clean

setup: .venv/.synced   ## install everything into .venv

.venv/.synced: pyproject.toml uv.lock
	@$(if $(UV_ON_PATH),true,test -x .venv/bin/uv || { $(PYTHON) -m venv .venv && .venv/bin/python -m pip install --quiet 'uv>=0.9'; })
	@$(UV) sync --frozen --all-extras --python $$(test -x .venv/bin/python && echo .venv/bin/python || echo $(PYTHON))
	@touch .venv/.synced

demo: setup   ## start the server, drive it through the official SDK, print every step, stop
	@.venv/bin/python scripts/demo.py

dev: setup   ## serve on http://127.0.0.1:2024 and stay up
	.venv/bin/toolweave dev

test: setup   ## run all tests but the slow ones, which `make slow` runs
	.venv/bin/python -m pytest --workers $(WORKERS)

official: .venv-langgraph/.ready   ## put the official server beside us, to serve this repository in a test

.venv-langgraph/.ready: pyproject.toml | setup
	@$(UV) venv --quiet --allow-existing --python .venv/bin/python .venv-langgraph
	@$(UV) pip install --quiet --python .venv-langgraph/bin/python --editable '.[server]' $(OFFICIAL)
	@touch .venv-langgraph/.ready

check: setup   ## run every static check
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/python scripts/check_sizes.py
	.venv/bin/python scripts/check_studio.py
	.venv/bin/python scripts/house.py --check
	.venv/bin/mypy --num-workers 2
	.venv/bin/lint-imports --no-logo

studio:   ## build the studio's page from its sources; needs Node, which users do not
	cd studio && npm ci --ignore-scripts && npm run build

house: setup   ## print the size and shape of the code base, with the limits of house.toml
	.venv/bin/python scripts/house.py

format: setup
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

coverage: setup   ## run the tests with coverage and print what no test reaches
	.venv/bin/python -m coverage run -m pytest --workers $(WORKERS)
	.venv/bin/python -m coverage combine --quiet
	.venv/bin/python -m coverage report

slow: setup   ## the long suites, and random examples for every property
	.venv/bin/python -m pytest --workers $(WORKERS) -m 'slow or hypothesis' --hypothesis-profile random

bench: setup   ## print the figures of docs/performance.md
	.venv/bin/python scripts/bench.py
	.venv/bin/python scripts/bench_store.py

bench-scale: setup   ## compare API and worker processes on PostgreSQL with floors, small with large databases
	.venv/bin/python scripts/bench_scale.py
	.venv/bin/python scripts/bench_scale_data.py

bench-tools: setup   ## compare tool calls through the plane with raw sessions and the adapter's default
	.venv/bin/python scripts/bench_tools.py

bench-workflow: setup   ## show what the workflow adds to the APIs it calls, and 200 requests at once
	.venv/bin/python scripts/bench_workflow.py

bench-core: setup   ## compare calls of the core server, over HTTP and in process, with a bare server
	.venv/bin/python scripts/bench_core.py

bench-studio: setup   ## show the studio's first load and updates, and the server's start beside an older commit; needs Node
	.venv/bin/python scripts/bench_studio.py --commit a50ba7a1~1

tool-pages: setup   ## write docs/tools anew: every example in it is executed
	.venv/bin/python -m scripts.tool_pages

reference: setup   ## write docs/reference and the list of decisions anew from the code
	.venv/bin/python -m scripts.reference_pages

docs: setup   ## build the documentation into site/; broken links fail
	.venv/bin/python scripts/docs_site.py

bench-stalls: setup   ## show how long one caller can keep all others waiting
	.venv/bin/python scripts/bench_stalls.py

tour: setup   ## play the first minutes of four users in terminals; writes docs/tour
	.venv/bin/python -m scripts.tour

soak: setup   ## ten minutes of calls while servers are killed; writes docs/soak.md
	.venv/bin/python scripts/soak.py --minutes 10 --report docs/soak.md

clean:
	rm -rf .venv .venv-langgraph tests/external/.toolweave dist build site .cache .mypy_cache .pytest_cache .ruff_cache .coverage*
