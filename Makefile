# Evenstep. `make help` lists the targets. One folder is one room (docs/data-flow.md); every room is
# one static library, and every program and test links the rooms that it may use. Variables:
# DEVELOPER=1 (strict, -Werror), SANITIZE=address,undefined|thread, BUILD=folder, CC, PREFIX,
# CUDA=auto|0|1. Fuzz targets and the host build of CUDA have SYMBOLS=-g1: lines for reports, which
# compile in four fifths of the time.
BUILD   ?= build
ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local
MPICC   ?= mpicc
PYTHON  := /usr/bin/python3
OPT     ?= -O2
SYMBOLS ?= -g
MARCH   ?= -march=x86-64-v2

WARN    := -Wall -Wextra -Wno-unused-parameter -Werror=implicit-function-declaration
# cut text is wanted where snprintf cuts it; clang does not know the warning
ifeq ($(shell $(CC) -Wformat-truncation -E -x c /dev/null -Werror >/dev/null 2>&1 && echo y),y)
WARN    += -Wno-format-truncation
endif
ifeq ($(DEVELOPER),1)
WARN    += -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wwrite-strings -Wvla
endif
ifneq ($(SANITIZE),)
SAN     := -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
endif
# What makes a mistake in memory harder to use. Sanitizers bring their own checks of library calls.
HARD    := -fstack-protector-strong $(if $(SANITIZE),,-D_FORTIFY_SOURCE=3)
CFLAGS  += -std=c11 -D_GNU_SOURCE $(SYMBOLS) $(OPT) $(HARD) $(WARN) $(SAN) -I. -MMD -MP -fPIC \
           -ffp-contract=off
LDFLAGS += -pie -Wl,-z,relro,-z,now $(SAN)
MPI_CFLAGS := $(shell $(MPICC) --showme:compile 2>/dev/null)
MPI_LIBS   := $(shell $(MPICC) --showme:link 2>/dev/null)
KERNEL_FLAGS := -O3 $(MARCH) -fopenmp -fno-math-errno

ROOMS   := common job store agent http coordinator cli kernels worker simulator
src      = $(sort $(wildcard $(1)/*.c $(1)/*/*.c $(1)/*/*/*.c $(1)/*/*/*/*.c))
obj      = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/main.c %/main_%.c,$(call src,$(1))))
lib      = $(BUILD)/lib$(1).a

# what a program of each room links, upper rooms first
L_common  := -ljansson -lcrypto -lm -lpthread -ldl
L_job     := $(L_common)
L_store   := -lhiredis -lssl $(L_common)
L_agent   := $(L_store) -ldl
L_http    := -lmicrohttpd -lgnutls -lz $(L_store)
L_kernels := -ldnnl -fopenmp -ldl $(L_common)
L_images  := -ljpeg -lpng -lz
L_worker  := $(MPI_LIBS) $(L_images) -lssl $(L_kernels) -lhiredis
L_cli     := -lcurl $(L_http) -lz
D_common      := common
D_job         := job common
D_store       := store job common
D_agent       := agent store job common
D_http        := http store job common
D_coordinator := coordinator http store job common
D_cli         := cli coordinator http store job common
D_kernels     := kernels job common
D_worker      := worker kernels store job common
D_simulator   := simulator worker kernels store job common
D_client      := client

PROGRAMS := $(addprefix $(BUILD)/,evenstep evenstep-worker evenstep-simulate evenstep-agent \
              evenstep-launch)

.DEFAULT_GOAL := all
.PHONY: all help clean install deb lint format check-format check-size check-types layers docs \
        check-docs bundle demo check mutants
all: $(PROGRAMS) ## builds every program into $(BUILD)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(EXTRA) $(IDENTITY) -c $< -o $@
$(BUILD)/kernels/%.o: EXTRA = $(KERNEL_FLAGS)
# its longjmp goes from one stack to another, which a fortified one takes for a mistake
$(BUILD)/simulator/fiber.o: EXTRA = -U_FORTIFY_SOURCE
$(patsubst %,$(BUILD)/worker/exchange/transport/%.o,comm_mpi mpi_messages mpi_expected) \
    $(BUILD)/worker/process/process.o \
    $(BUILD)/tests/mpi/%.o: EXTRA = $(MPI_CFLAGS)

# Lua of the store: NAME.lua in store/lua/ becomes the text LUA_NAME, without comments
$(BUILD)/store/lua.h: $(wildcard store/lua/*.lua store/lua/*/*.lua) Makefile
	@mkdir -p $(@D)
	@for f in $(filter %.lua,$^); do \
	    echo "#define LUA_$$(basename $$f .lua | tr a-z A-Z) \\"; \
	    sed -e '/^ *--/d' -e 's/[\\"]/\\&/g' -e 's/.*/    "&\\n" \\/' $$f; \
	    echo; done >$@
$(call obj,store): CFLAGS += -I$(BUILD)
$(call obj,store): | $(BUILD)/store/lua.h

define room
$(call lib,$(1)): $(call obj,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room,$(r))))
libs = $(foreach r,$(D_$(1)),$(call lib,$(r)))

$(BUILD)/evenstep: $(BUILD)/cli/main.o $(call libs,cli)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_cli)
$(BUILD)/evenstep-worker: $(BUILD)/worker/main.o $(call libs,worker)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_worker)
$(BUILD)/evenstep-simulate: $(BUILD)/simulator/main.o $(call libs,simulator)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_worker)
$(BUILD)/evenstep-agent: $(BUILD)/agent/main.o $(call libs,agent)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_agent)
$(BUILD)/evenstep-launch: $(BUILD)/agent/main_launch.o $(call libs,agent)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_agent)

# ---- tests: tests/unit/ROOM/test_*.c (cmocka), tests/kernels/test_*.c, tests/mpi/test_*.c --------
unit_tests   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/unit/*/test_*.c))
kernel_tests := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/kernels/test_*.c))
mpi_tests    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/mpi/test_*.c))
define unit_room
$(BUILD)/tests/unit/$(1)/test_%: $(BUILD)/tests/unit/$(1)/test_%.o $(call libs,$(1))
	$$(CC) $$(LDFLAGS) -o $$@ $$^ -lcmocka $(2)
endef
$(eval $(call unit_room,common,$(L_common)))
$(eval $(call unit_room,job,$(L_job)))
$(eval $(call unit_room,store,$(L_store)))
$(eval $(call unit_room,agent,$(L_agent)))
$(eval $(call unit_room,http,-lcurl $(L_http)))
$(eval $(call unit_room,coordinator,-lcurl $(L_http)))
$(eval $(call unit_room,cli,$(L_cli)))
$(eval $(call unit_room,worker,$(L_worker)))
$(eval $(call unit_room,simulator,$(L_worker)))
$(eval $(call unit_room,client,-lpthread))
$(BUILD)/tests/unit/coordinator/test_predict: | $(BUILD)/evenstep-simulate
$(BUILD)/tests/kernels/test_%: $(BUILD)/tests/kernels/test_%.o $(call libs,kernels)
	$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(L_kernels)
$(BUILD)/tests/mpi/test_%: $(BUILD)/tests/mpi/test_%.o $(call libs,worker)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_worker)
# Fuzz targets: tests/fuzz/fuzz_*.c, libFuzzer with ASan and UBSan, in a build folder of their own.
# Where clang's fuzzer runtime is missing they are not built, and tests/run skips the suite with
# that reason.
FUZZ_CC      ?= clang
FUZZ_SECONDS ?= 120
fuzz_tests   := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
fuzz_worker  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard worker/data/*.c worker/data/*/*.c) \
    kernels/cpu/flat.c worker/exchange/own_state.c \
    $(addprefix worker/checkpoint/,safetensors.c artifact.c progress.c checkpoint.c own_files.c))
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(fuzz_worker) $(call libs,http)
	$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(L_images) $(L_http)
.PHONY: fuzz fuzz-parts check-fuzz
fuzz-parts: $(fuzz_tests)
fuzz:
	@+if tests/run fuzz-runtime $(FUZZ_CC); then \
	    $(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=$(FUZZ_CC) CUDA=0 \
	        SANITIZE=address,undefined,fuzzer-no-link SYMBOLS=-g1 \
	        OPT="-O1 -fno-sanitize-recover=all" fuzz-parts; fi
check-fuzz: fuzz ## fuzz targets, FUZZ_SECONDS each (120)
	FUZZ_SECONDS=$(FUZZ_SECONDS) FUZZ_SEED=0 tests/run fuzz BUILD=$(BUILD)
.SECONDARY:

# a stand-in of the driver's library, for the statistics of GPUs
$(BUILD)/libevenstep-nvml.so: tests/cuda/standin/nvml.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O1 -g -fPIC -shared $(WARN) $(SAN) -o $@ $<
include client/build.mk
include cli/build.mk
include tests/bench/build.mk
include tests/chaos/build.mk
include docs/print/build.mk
# what every program built with a sanitizer has in it: where reports go, what is not ours (a fuzz
# target has libFuzzer for that)
ifneq ($(SANITIZE),)
ifeq ($(findstring fuzzer,$(SANITIZE)),)
SAN_OPTIONS := $(BUILD)/tests/sanitizer/options.o
$(SAN_OPTIONS): EXTRA = -DSANITIZER_REPORTS='"$(abspath $(BUILD))/reports"'
$(SAN_OPTIONS): SAN := # it speaks before the sanitizer is there
$(SAN_OPTIONS): | $(BUILD)/reports
$(BUILD)/reports:
	@mkdir -p $@
$(PROGRAMS) $(bench_programs) $(unit_tests) $(kernel_tests) $(mpi_tests): $(SAN_OPTIONS)
$(CHAOS_CLIENT): $(SAN_OPTIONS)
endif
endif
check-build: all client $(bench_programs) $(unit_tests) $(kernel_tests) $(mpi_tests) \
    $(doc_programs) $(CHAOS_CLIENT) $(BUILD)/libevenstep-nvml.so \
    $(BUILD)/evenstep-cuda-host.so
.PHONY: check-build check-unit check-kernels check-mpi check-integration check-browser \
        check-cluster check-chaos check-survival check-own-program check-deploy
SUITES ?= all
check: check-build cuda-host fuzz layers check-size check-docs check-format ## every test
	tests/run $(SUITES) BUILD=$(BUILD)
check-unit: $(unit_tests) $(doc_programs) $(BUILD)/libevenstep-nvml.so ## unit tests (cmocka)
	tests/run unit BUILD=$(BUILD)
check-kernels: $(kernel_tests) ## kernels against the plain reference and finite differences
	tests/run kernels BUILD=$(BUILD)
check-mpi: all $(mpi_tests) ## exchange and strategies over MPI, 1 to 4 ranks
	tests/run mpi BUILD=$(BUILD)
check-integration: all ## real redis-server and mpirun
	tests/run integration BUILD=$(BUILD)
check-survival: all ## what is killed, stopped or away, and comes back (not part of make check)
	tests/run survival BUILD=$(BUILD)
check-own-program: all client ## users' programs (PyTorch, Keras, JAX: deploy/setup own-program)
	tests/run own-program BUILD=$(BUILD)
check-browser: all ## the page in a real browser
	tests/run browser BUILD=$(BUILD)
check-cluster: all ## four hosts in network namespaces, unequal quotas, links that fail (needs root)
	tests/run cluster BUILD=$(BUILD)
check-chaos: all $(CHAOS_CLIENT) ## drawn faults on real processes (SEED=1 FAULTS=25)
	SEED=$(SEED) FAULTS=$(FAULTS) STORE_FAULTS=$(STORE_FAULTS) tests/run chaos BUILD=$(BUILD)

# Suites under sanitizers, each in a build folder of its own; what any process reports is a failure
# (tests/sanitizer/options.c)
ASAN_SUITES ?= unit kernels mpi simulator integration survival browser cluster
TSAN_SUITES ?= unit mpi integration/test_job.py integration/test_agent.py \
               survival/test_recovery.py browser/test_live.py
.PHONY: check-asan check-tsan
check-asan: ## ASAN_SUITES with AddressSanitizer and UBSan, leaks too (docs/testing.md)
	@+$(MAKE) --no-print-directory BUILD=$(BUILD)-asan SANITIZE=address,undefined OPT=-O1 CUDA=0 \
	    check-build
	tests/run $(ASAN_SUITES) BUILD=$(BUILD)-asan
check-tsan: ## TSAN_SUITES with ThreadSanitizer (docs/testing.md)
	@+$(MAKE) --no-print-directory BUILD=$(BUILD)-tsan SANITIZE=thread OPT=-O1 CUDA=0 check-build
	tests/run $(TSAN_SUITES) BUILD=$(BUILD)-tsan

check-deploy: ## images and Compose: up, scaled, killed, stopped (root; deploy/setup deploy-test)
	tests/run deploy

include kernels/plugin.mk
include kernels/cuda/build.mk

.PHONY: reproduce
reproduce: all ## the papers' tables (days; SIZE=scouting, QUICK=1, TIME=2h, TABLES=...)
	BUILD=$(BUILD) SIZE=$(SIZE) QUICK=$(QUICK) TIME=$(TIME) \
		$(PYTHON) tests/reproduce/reproduce.py $(TABLES)

demo: all ## the service with four unequal nodes and a job
	BUILD=$(BUILD) deploy/demo --no-setup
mutants: ## changes the code in N places (100), one at a time, and counts what no test notices
	tests/mutate/run -n $(or $(N),100) --seed $(or $(SEED),1)
layers: ## checks that arrows run down, documents are read at home, READMEs name what is there
	@tests/layers
	@tests/documents
	@tests/readmes
check-size: ## checks that no function, file or line is too long
	@tests/sizes
	@tests/widths
check-types: ## types of the page's JavaScript (JSDoc, TypeScript's checker)
	@tests/run types
lint: ## clang-tidy over every room
	bear --output compile_commands.json -- $(MAKE) -B BUILD=$(BUILD)-lint all && \
	    clang-tidy -p . --quiet $(foreach r,$(ROOMS),$(call src,$(r)))
compile_commands.json: Makefile ## for editors
	bear --output $@ -- $(MAKE) -B BUILD=$(BUILD)-db all
formatted = $(sort $(foreach d,$(addsuffix /,$(ROOMS) client) tests/ docs/,$(foreach e,c h cu cpp,\
    $(wildcard $(d)*.$(e) $(d)*/*.$(e) $(d)*/*/*.$(e) $(d)*/*/*/*.$(e))))) \
    $(wildcard static/js/*.js static/js/*/*.js static/js/*/*/*.js \
    static/js/*/*/*/*.js)
format: ## clang-format over everything
	@clang-format-14 -i $(formatted)
check-format: ## nothing that `make format` would change, where clang-format 14 is
	@if command -v clang-format-14 >/dev/null; then clang-format-14 --dry-run --Werror $(formatted); \
	else echo "clang-format-14 is not installed: the layout is not checked"; fi
check-docs: all $(doc_programs) ## nothing in the docs is stale: options, files, links, targets
	@BUILD=$(BUILD) docs/generate --check
docs: all $(doc_programs) ## regenerates what the docs take from the code
	BUILD=$(BUILD) docs/generate
page_there = $(DESTDIR)$(PREFIX)/share/evenstep/static
install: all install-client install-share install-page ## into PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin
	install $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin
install-page: # what the service hands to browsers; deploy/bundle/make takes it, too
	install -d $(page_there)
	cp -r $(addprefix static/,index.html favicon.svg css js) $(page_there)
	find $(page_there) -name README.md -delete
bundle: all ## a folder of at most 40 MiB that runs where our packages are not (docs/gpu.md)
	CC="$(CC)" deploy/bundle/make $(BUILD) $(BUILD)/bundle/evenstep
deb: all ## Debian packages for service, agent and command line, into BUILD/deb
	deploy/debian/make $(BUILD)
clean: ## removes what was built
	rm -rf $(BUILD)
help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22 | sort

-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
