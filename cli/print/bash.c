/* Completion for bash: what each command takes, as data in a `case`, and one function that reads
 * it. Names of jobs, nodes and programs come from the service, if it answers. */
#include "cli/choices.h"
#include "cli/print/print.h"

static const char head[] =
    "# bash completion for evenstep; made by `evenstep completion bash`.\n"
    "# options: all of a command; values: those that take one, with its kind;\n"
    "# kinds: of its arguments; rest: of all that follow; actions: what its first may be.\n"
    "_evenstep() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local options='' values='' kinds='' rest='' actions='' kind='' i names\n"
    "    COMPREPLY=()\n"
    "    case ${COMP_WORDS[1]} in\n";

static const char tail[] =
    "    if ((COMP_CWORD == 1)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$commands --help --version\" -- \"$word\")\n"
    "        return\n"
    "    fi\n"
    "    # shellcheck disable=SC2086\n"
    "    set -- $kinds\n"
    "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
    "        if [[ \" $values \" == *\" ${COMP_WORDS[i]}=\"* ]]; then\n"
    "            i=$((i + 1))\n"
    "        elif [[ ${COMP_WORDS[i]} != -* ]] && (($# > 0)); then\n"
    "            shift\n"
    "        fi\n"
    "    done\n"
    "    kind=${1:-$rest}\n"
    "    if [[ \" $values \" == *\" $before=\"* ]]; then\n"
    "        kind=\" $values \"\n"
    "        kind=${kind#*\" $before=\"}\n"
    "        kind=${kind%% *}\n"
    "    elif [[ $word == -* ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$word\")\n"
    "        return\n"
    "    fi\n"
    "    case $kind in\n"
    "    file) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
    "    folder) mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;\n"
    "    jobs | nodes | programs | sweeps | datasets)\n"
    "        # compgen -W would run what stands in a name\n"
    "        mapfile -t names < <(\"${COMP_WORDS[0]}\" \"$kind\" -q 2>/dev/null)\n"
    "        for i in \"${names[@]}\"; do\n"
    "            [[ $i != \"$word\"* ]] || COMPREPLY+=(\"$(printf %q \"$i\")\")\n"
    "        done\n"
    "        ;;\n"
    "    shell) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish' -- \"$word\") ;;\n"
    "    one-of:*)\n"
    "        kind=${kind#*:}\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"${kind//,/ }\" -- \"$word\")\n"
    "        ;;\n"
    "    action) mapfile -t COMPREPLY < <(compgen -W \"$actions\" -- \"$word\") ;;\n"
    "    esac\n"
    "    [[ $kind != file && $kind != folder ]] || compopt -o filenames 2>/dev/null\n"
    "}\n"
    "complete -F _evenstep evenstep\n";

static const char *const names[] = {
    [WORD_PLAIN] = "plain",      [WORD_FILE] = "file",     [WORD_FOLDER] = "folder",
    [WORD_JOB] = "jobs",         [WORD_NODE] = "nodes",    [WORD_PROGRAM] = "programs",
    [WORD_SHELL] = "shell",      [WORD_ACTION] = "action", [WORD_SWEEP] = "sweeps",
    [WORD_DATASET] = "datasets",
};

/* "--x=kind", where the values are few "--x=one-of:a,b" */
static void print_value(const char *option, const struct opt *o, FILE *out)
{
    int n;
    bool few = choices_of(o->metavar, &n) != NULL;
    fprintf(out, "%s=%s", option, few ? "one-of:" : names[word_kind(o->metavar)]);
    print_choices(o, ",", out);
}

static void print_command(const struct command *c, FILE *out)
{
    struct opt options[COMMAND_OPTIONS];
    int least, most;
    command_options(c, options);
    command_range(c, &least, &most);
    fprintf(out, "    %s)\n        options='", c->name);
    for (const struct opt *o = options; o->name; o++) {
        fprintf(out, "%s--%s", o == options ? "" : " ", o->name);
    }
    fprintf(out, "'\n        values='");
    for (const struct opt *o = options; o->name; o++) {
        if (o->kind != OPT_FLAG) {
            char option[64];
            snprintf(option, sizeof option, "%s--%s", o == options ? "" : " ", o->name);
            print_value(option, o, out);
            if (command_letter(c, o->name)) {
                snprintf(option, sizeof option, " -%c", command_letter(c, o->name));
                print_value(option, o, out);
            }
        }
    }
    fprintf(out, "'\n        kinds='");
    for (int i = 0; i < argument_places(c); i++) {
        fprintf(out, "%s%s", i ? " " : "", names[argument_kind(c, i)]);
    }
    fprintf(out, "'\n        rest='%s'\n",
            most < 0 ? names[argument_kind(c, COMMAND_OPTIONS)] : "");
    if (c->actions) {
        fprintf(out, "        actions='%s'\n", c->actions);
    }
    fprintf(out, "        ;;\n");
}

void print_bash(FILE *out)
{
    fputs(head, out);
    for (const struct command *c = commands; c->name; c++) {
        print_command(c, out);
    }
    fputs("    esac\n    local commands='", out);
    for (const struct command *c = commands; c->name; c++) {
        fprintf(out, "%s%s", c == commands ? "" : " ", c->name);
    }
    fputs("'\n", out);
    fputs(tail, out);
}
