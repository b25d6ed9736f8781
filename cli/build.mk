# What shells complete commands with, and the manual: printed by the program from its table of
# commands (cli/print).
cli_share := $(addprefix $(BUILD)/share/,bash-completion/completions/evenstep \
    zsh/site-functions/_evenstep fish/vendor_completions.d/evenstep.fish man/man1/evenstep.1)
$(BUILD)/share/bash-completion/%: PRINT = completion bash
$(BUILD)/share/zsh/%: PRINT = completion zsh
$(BUILD)/share/fish/%: PRINT = completion fish
$(BUILD)/share/man/%: PRINT = manual
$(cli_share): $(BUILD)/evenstep
	@mkdir -p $(@D)
	@$< $(PRINT) >$@

.PHONY: share install-share
share: $(cli_share) ## completions for bash, zsh and fish, and the manual, into BUILD/share
install-share: $(cli_share)
	cd $(BUILD)/share && find . -type f -exec \
	    install -D -m 644 {} $(abspath $(DESTDIR)$(PREFIX))/share/{} ';'
