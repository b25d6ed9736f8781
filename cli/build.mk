# What shells complete commands with, and the manual: printed by each program from its table of
# commands (cli/print) or options (common/manual.h).
cli_share := $(addprefix $(BUILD)/share/,bash-completion/completions/evenstep \
    zsh/site-functions/_evenstep fish/vendor_completions.d/evenstep.fish man/man1/evenstep.1)
manuals := $(patsubst $(BUILD)/%,$(BUILD)/share/man/man1/%.1,$(filter-out %/evenstep,$(PROGRAMS)))
$(BUILD)/share/bash-completion/%: PRINT = completion bash
$(BUILD)/share/zsh/%: PRINT = completion zsh
$(BUILD)/share/fish/%: PRINT = completion fish
$(BUILD)/share/man/%: PRINT = manual
$(cli_share): $(BUILD)/evenstep
	@mkdir -p $(@D)
	@$< $(PRINT) >$@
$(manuals): $(BUILD)/share/man/man1/%.1: $(BUILD)/%
	@mkdir -p $(@D)
	@$< --manual >$@

.PHONY: share install-share
share: $(cli_share) $(manuals) ## completions for bash, zsh and fish, and manuals, into BUILD/share
install-share: $(cli_share) $(manuals)
	cd $(BUILD)/share && find . -type f -exec \
	    install -D -m 644 {} $(abspath $(DESTDIR)$(PREFIX))/share/{} ';'
