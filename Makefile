# make site     a simulated GPU host on this machine, with verified tenants
# make cleanup  takes it away again
# make test     tries all of that on labs, and the code; make check is the quick part of it
# make faults   proves that it goes on after kills, stops and what else goes wrong; takes more than three hours
# make fuzz     tries generated inputs on everything that reads what tenants, people and programs write; takes ten minutes, KUBEGPU_FUZZ_FACTOR times
# make docs     writes the generated parts of the manual
# make sbom     writes what the lab and the execution environment are made of, as CycloneDX, into build
# make bench    measures kai_queues against kubernetes.core.k8s, switches of KAI Scheduler and their gaps, re-runs, rehearsals, and large clusters of
#               simulated nodes; takes more than an hour
# make matrix   installs, upgrades, takes back and removes releases of KAI Scheduler, and writes docs/contributing/kai-matrix.md; --releases and a
#               cluster of yours in ARGS
# make rehearse  on a lab of its own, what an upgrade of KAI Scheduler would do; ARGS='-e rehearsal_pattern=gangs' for other work, and
#               make cleanup ARGS='-e lab_name=kubegpu-rehearsal' takes that lab away
# Options of ansible-playbook go into ARGS, as in: make site ARGS='-e lab_images=build'

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.SILENT:
.PHONY: site cleanup rehearse test faults fuzz bench matrix env check sanity docs build sbom format lock

INVENTORY ?= inventories/lab

site:
	tools/system up
	. tools/activate go
	ansible-playbook site.yml -i $(INVENTORY) $(ARGS)

cleanup:
	. tools/activate
	ansible-playbook cleanup.yml -i $(INVENTORY) $(ARGS)
	tools/system down

rehearse:
	tools/system up
	. tools/activate go
	for playbook in site.yml playbooks/rehearse.yml; do
	    ansible-playbook $$playbook -i inventories/lab -i inventories/rehearsal -e lab_name=kubegpu-rehearsal $(ARGS)
	done

test:
	tests/run

faults:
	tests/faults/run

fuzz:
	tests/fuzz/run

bench:
	tools/system up
	. tools/activate dev go bench
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/queues.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/switch.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/gap.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/rerun.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/fleet.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/verdicts.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/scale.py

matrix:
	tools/system up
	. tools/activate dev go bench
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tests/bench/matrix.py $(ARGS)

env:
	tools/env dev

check:
	tests/check
	tests/pythons

sanity:
	tests/sanity

docs:
	. tools/activate
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tools/inventory_page.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tools/kai_page.py
	PYTHONPATH=$$ANSIBLE_COLLECTIONS_PATH python tools/tested_page.py

build:
	. tools/activate
	ansible-galaxy collection build --force --output-path build . lab

sbom:
	. tools/activate galaxy
	python tools/sbom.py

format:
	. tools/activate dev
	ruff check --no-cache --fix-only .
	ruff format --no-cache .

# Anew from requirements/*.in; needs uv.
lock:
	cd requirements
	for name in run dev go events bench galaxy pages gpu newest oldest; do
	    case $$name in newest) python=3.13 ;; oldest) python=3.9 ;; *) python=3.11 ;; esac
	    uv pip compile --quiet --universal --python-version $$python --generate-hashes --no-annotate --no-emit-index-url \
	        --no-emit-find-links --custom-compile-command 'make lock' $$name.in -o $$name.txt
	done
