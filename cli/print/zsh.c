/* Completion for zsh: a call of _arguments for each command. */
#include <string.h>

#include "cli/choices.h"
#include "cli/print/print.h"

static const char *const actions[] = {
    [WORD_PLAIN] = " ",
    [WORD_FILE] = "_files",
    [WORD_FOLDER] = "_files -/",
    [WORD_JOB] = "_evenstep_names jobs",
    [WORD_NODE] = "_evenstep_names nodes",
    [WORD_PROGRAM] = "_evenstep_names programs",
    [WORD_SHELL] = "(bash zsh fish)",
    [WORD_ACTION] = " ", /* print_argument */
    [WORD_SWEEP] = "_evenstep_names sweeps",
    [WORD_DATASET] = "_evenstep_names datasets",
};

/* Help within a specification in single quotes: [ ] and : have a meaning there. */
static void print_help(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
        } else {
            fprintf(out, "%s%c", strchr("[]:\\", *text) ? "\\" : "", *text);
        }
    }
}

static void print_option(const struct command *c, const struct opt *o, FILE *out)
{
    char letter = command_letter(c, o->name);
    fputs(" \\\n            ", out);
    if (letter) {
        fprintf(out, "'(-%c --%s)'{-%c,--%s}'[", letter, o->name, letter, o->name);
    } else {
        fprintf(out, "'%s--%s[", o->kind == OPT_LIST ? "*" : "", o->name);
    }
    print_help(o->help, out);
    fputs("]", out);
    if (o->kind != OPT_FLAG) {
        int n;
        bool few = choices_of(o->metavar, &n) != NULL;
        fprintf(out, ":%s:%s", o->metavar, few ? "(" : actions[word_kind(o->metavar)]);
        print_choices(o, " ", out);
        fputs(few ? ")" : "", out);
    }
    fputs("'", out);
}

static void print_argument(const struct command *c, int i, FILE *out)
{
    if (argument_kind(c, i) == WORD_ACTION && c->actions) {
        fprintf(out, "(%s)", c->actions);
    } else {
        fputs(actions[argument_kind(c, i)], out);
    }
}

static void print_command(const struct command *c, FILE *out)
{
    struct opt options[COMMAND_OPTIONS];
    int least, most;
    command_options(c, options);
    command_range(c, &least, &most);
    fprintf(out, "    %s)\n        _arguments", c->name);
    for (const struct opt *o = options; o->name; o++) {
        print_option(c, o, out);
    }
    for (int i = 0; i < argument_places(c); i++) {
        fprintf(out, " \\\n            '%d: :", i + 1);
        print_argument(c, i, out);
        fputs("'", out);
    }
    if (most < 0) {
        fprintf(out, " \\\n            '*: :%s'", actions[argument_kind(c, COMMAND_OPTIONS)]);
    }
    fputs("\n        ;;\n", out);
}

void print_zsh(FILE *out)
{
    fputs(
        "#compdef evenstep\n"
        "# zsh completion for evenstep; made by `evenstep completion zsh`.\n"
        "# _arguments calls it with options for compadd before the word of ours\n"
        "_evenstep_names() {\n"
        "    local -a names\n"
        "    names=(${(f)\"$(evenstep ${@[-1]} -q 2>/dev/null)\"})\n"
        "    compadd \"${@[1,-2]}\" -a names\n"
        "}\n"
        "_evenstep() {\n"
        "    local -a all general\n"
        "    general=('--help:prints what there is' '--version:prints the version')\n"
        "    all=(\n",
        out);
    for (const struct command *c = commands; c->name; c++) {
        fprintf(out, "        '%s:", c->name);
        print_help(c->help, out);
        fputs("'\n", out);
    }
    fputs(
        "    )\n"
        "    if ((CURRENT == 2)); then\n"
        "        _describe command all\n"
        "        _describe -o option general\n"
        "        return\n"
        "    fi\n"
        "    local command=$words[2]\n"
        "    shift words\n"
        "    ((CURRENT--))\n"
        "    case $command in\n",
        out);
    for (const struct command *c = commands; c->name; c++) {
        print_command(c, out);
    }
    fputs(
        "    esac\n"
        "}\n"
        "if [[ $funcstack[1] == _evenstep ]]; then\n"
        "    _evenstep \"$@\"\n"
        "else\n"
        "    compdef _evenstep evenstep\n"
        "fi\n",
        out);
}
