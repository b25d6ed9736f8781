# The identity of the interface between worker and plug-in (kernels/plugin.h): a hash over the names
# and the bytes of all headers of ours that kernels/plugin.h includes, itself among them. It is
# computed when a file that contains it is compiled; such a file includes these very headers, so it
# is compiled again when one of them changes.
plugin_headers  = $(sort $(filter %.h %.def,$(shell $(CC) -std=c11 -I. -MM kernels/plugin.h)))
plugin_hash     = $(firstword $(shell sha256sum $(plugin_headers) | sha256sum))
plugin_identity = $(if $(plugin_headers),$(plugin_hash),$(error $(CC) -MM kernels/plugin.h failed))
# has_identity FILE.o: its command has $(IDENTITY)
define has_identity
$(1): IDENTITY = -DPLUGIN_IDENTITY='"$$(plugin_identity)"'
endef
$(eval $(call has_identity,$(BUILD)/kernels/plugin.o))
.PHONY: plugin-identity
plugin-identity: # for tests: prints it
	@echo $(plugin_identity)
