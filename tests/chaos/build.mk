# The chaos suite (included by the Makefile): a client of the store, for histories of several
CHAOS_CLIENT := $(BUILD)/tests/chaos/store_client
$(CHAOS_CLIENT): $(CHAOS_CLIENT).o $(call libs,store)
	$(CC) $(LDFLAGS) -o $@ $^ $(L_store)
