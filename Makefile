# The build of Portunus. `make help` lists the targets; auto/README.md says how it works.
#
# One Makefile serves every build directory: `make BUILD=objs-asan` builds there, by what
# `./configure --builddir=objs-asan ...` wrote. Objects are found by the folders of src/; only
# src/http/modules goes by auto/modules.

BUILD ?= objs
FUZZ_SECONDS ?= 300
PYTHON = /usr/bin/python3
PYTEST_ARGS ?=
TESTS ?= tests
DESTDIR ?=

# Targets that only start other makes and scripts; they need no configured build directory.
DRIVERS = help serve check lint tidy doors coverage aarch64 bench docs asan fuzz deps deb clean format
.DEFAULT_GOAL = all
GOALS = $(or $(MAKECMDGOALS),all)

# All processors; a -j on the command line, or of the make above, weighs more.
JOBS ?= $(shell nproc)
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(JOBS)
endif

ifneq ($(filter-out $(DRIVERS),$(GOALS)),)
include auto/build.mk
else
.NOTPARALLEL:
endif

.PHONY: $(DRIVERS)

help:
	@echo "make           build $(BUILD)/nginx; ./configure runs first when it has not"
	@echo "make serve     build, and run it on LISTEN=127.0.0.1:8080 with conf/serve.conf"
	@echo "make check     every test: units, sanitizers, fuzzing for a while, pytest"
	@echo "make unit      the unit tests; make BUILD=objs-asan unit under sanitizers"
	@echo "make lint      layers, words, formatting, warnings of two compilers"
	@echo "make tidy      clang-tidy and cppcheck on what changed since main; TIDY=--all on everything"
	@echo "make doors     the functions that one kept request enters"
	@echo "make aarch64   builds for aarch64, and runs unit tests and a server with qemu-user"
	@echo "make coverage  what the tests reach of src: lines, functions, branches"
	@echo "make format    lay the sources out as make lint wants them"
	@echo "make bench     compare with Debian's nginx"
	@echo "make docs      write the reference in docs/ from the tables in the sources"
	@echo "make asan      build in objs-asan with ASan and UBSan"
	@echo "make fuzz      build and run the fuzz targets, FUZZ_SECONDS=$(FUZZ_SECONDS) together"
	@echo "make install   install where configure says, below DESTDIR"
	@echo "make deb       a Debian package that takes the place of nginx; its layout and paths"
	@echo "make clean     remove objs and objs-*"

deps:
	@auto/deps

# The prefix lies in the build directory, so that nothing outside is written.
serve: deps
	@$(MAKE) --no-print-directory all
	@auto/serve $(BUILD)

check:
	+@MAKE='$(MAKE)' PYTEST_ARGS='$(PYTEST_ARGS)' TESTS='$(TESTS)' auto/check $(BUILD)

# Both compilers, every warning an error. Where the fuzz targets are built next, LINT_CLANG=objs-fuzz compiles for both.
LINT_CLANG ?= objs-clang
lint:
	@auto/deps --tests
	@test -f objs-gcc/config.mk || ./configure --builddir=objs-gcc --with-cc=gcc
	@test -f $(LINT_CLANG)/config.mk || $(CONFIGURE_$(LINT_CLANG))
	+@status=0; \
	$(MAKE) --no-print-directory -k BUILD=objs-gcc CFLAGS=-Werror all || status=1; \
	$(MAKE) --no-print-directory -k BUILD=$(LINT_CLANG) CFLAGS='-Werror $(LINT_CFLAGS_$(LINT_CLANG))' all-objects || status=1; \
	$(PYTHON) tests/lint/lint.py objs-gcc || status=1; \
	exit $$status

CONFIGURE_objs-clang = ./configure --builddir=objs-clang --with-cc=clang
CONFIGURE_objs-fuzz = ./configure --builddir=objs-fuzz --with-debug --with-cc=clang \
    --with-sanitizer=fuzzer-no-link,$(SANITIZERS)
LINT_CFLAGS_objs-clang = -g0

# Findings are fixed, or suppressed at their line with the reason.
TIDY ?=
tidy:
	@auto/deps --tests
	@test -f objs-clang/config.mk || $(CONFIGURE_objs-clang)
	@$(PYTHON) tests/lint/tidy.py objs-clang $(TIDY)

# A build that says which functions it enters; DOORS_ARGS=--list shows them. Optimizing changes nothing of that: what is
# inlined counts.
DOORS_CFLAGS = -finstrument-functions -O0 -U_FORTIFY_SOURCE -Wno-error=frame-larger-than=
doors:
	@test -f objs-doors/config.mk || ./configure --builddir=objs-doors --with-cc=gcc
	+@$(MAKE) --no-print-directory BUILD=objs-doors CFLAGS='$(DOORS_CFLAGS)' all objs-doors/doors_trace.so
	@$(PYTHON) tests/lint/doors.py objs-doors $(DOORS_ARGS)

# Programs that count what they run, in files that they share while they run.
COVERAGE_CFLAGS = -O1 -g0 -Wno-error=frame-larger-than= -fcoverage-mapping -mllvm -runtime-counter-relocation \
    -fprofile-instr-generate=$(CURDIR)/objs-coverage/profiles/%c%m.profraw
coverage:
	@auto/deps --tests
	@test -f objs-coverage/config.mk || ./configure --builddir=objs-coverage --with-debug --with-cc=clang
	@mkdir -p objs-coverage/profiles
	+@$(MAKE) --no-print-directory BUILD=objs-coverage CFLAGS='$(COVERAGE_CFLAGS)' \
	    LDFLAGS=-fprofile-instr-generate all unit-programs fuzz-programs
	@auto/coverage objs-coverage

format:
	@$(PYTHON) tests/lint/lint.py --format

# Beside `make check`, which has its time already.
aarch64:
	@auto/deps --tests
	+@MAKE='$(MAKE)' auto/aarch64

bench:
	@auto/deps --tests
	@$(MAKE) --no-print-directory all
	$(PYTHON) tests/bench/headline.py
	$(PYTHON) tests/bench/bench.py

# In a build directory of its own, with Debian's paths; objects that these do not concern come from $(BUILD).
deb:
	+@MAKE='$(MAKE)' auto/deb $(BUILD)

docs:
	@$(MAKE) --no-print-directory all
	$(PYTHON) auto/docs.py $(BUILD)/nginx docs

SANITIZERS = address,undefined

# Undefined behaviour is an illegal instruction, which is reported with its file, line and stack. The sentences that say what
# it was are left out: with their 10 MB of data, in which leaks are looked for at each exit, the start and end of a server take
# 72 ms of CPU time instead of 44. To read them, configure a build directory without the option.
asan:
	@test -f objs-asan/config.mk || ./configure --builddir=objs-asan --with-debug \
	    --with-sanitizer=$(SANITIZERS) --with-cc-opt=-fsanitize-undefined-trap-on-error
	@$(MAKE) --no-print-directory BUILD=objs-asan all unit-programs

fuzz:
	@test -f objs-fuzz/config.mk || $(CONFIGURE_objs-fuzz)
	@$(MAKE) --no-print-directory BUILD=objs-fuzz fuzz-programs
	@auto/fuzz objs-fuzz $(FUZZ_SECONDS)

clean:
	rm -rf objs objs-deb objs-asan objs-fuzz objs-gcc objs-clang objs-doors objs-coverage objs-aarch64
