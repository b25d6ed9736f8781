# Programs that print what docs/ takes from the code; docs/generate runs them.
doc_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard docs/print/*.c))
$(BUILD)/docs/print/%: $(BUILD)/docs/print/%.o $(call libs,http)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_http)
