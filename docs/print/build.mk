# Programs that print what docs/ takes from the code; docs/generate runs them.
doc_programs := $(patsubst %.c,$(BUILD)/%,$(wildcard docs/print/*.c))
$(BUILD)/docs/print/%: $(BUILD)/docs/print/%.o $(call libs,http)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_http)
# its tables are those of job/ and store/: a guide's test builds it without http/
$(BUILD)/docs/print/tables: $(BUILD)/docs/print/tables.o $(call libs,store)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_store)
