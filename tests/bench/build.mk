# The bench suite (included by the Makefile): every figure is a ratio measured in one run, printed
# as a table and written to docs/results/.
BENCHES := $(subst _,-,$(patsubst tests/bench/bench_%.py,%,$(wildcard tests/bench/bench_*.py)))
.PHONY: bench $(BENCHES:%=bench-%)
$(BUILD)/tests/bench/%.o: EXTRA = $(KERNEL_FLAGS) $(MPI_CFLAGS)
$(BUILD)/tests/bench/bench_%: $(BUILD)/tests/bench/bench_%.o $(call libs,worker)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_worker)
$(BUILD)/tests/bench/bench_own_program: $(BUILD)/tests/bench/bench_own_program.o \
    $(BUILD)/libclient.a
	$(CC) $(LDFLAGS) -o $@ $^
bench_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/bench_*.c))
bench: $(BENCHES:%=bench-%) ## every bench beside its peer (deploy/setup bench), into docs/results/
$(BENCHES:%=bench-%): bench-%: all client $(bench_programs)
	BUILD=$(BUILD) /usr/bin/python3 tests/bench/bench_$(subst -,_,$*).py
