/* Completion for fish: a line for each command and each option. */
#include "cli/choices.h"
#include "cli/print/print.h"

/* In single quotes. */
static void print_quoted(const char *text, FILE *out)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') {
            fputc('\\', out);
        }
        fputc(*text, out);
    }
    fputc('\'', out);
}

/* What an argument of this kind may be, as options of `complete`. */
static const char *const offers[] = {
    [WORD_PLAIN] = "-f",
    [WORD_FILE] = "-F",
    [WORD_FOLDER] = "-f -a '(__fish_complete_directories)'",
    [WORD_JOB] = "-f -a '(evenstep jobs -q 2>/dev/null)'",
    [WORD_NODE] = "-f -a '(evenstep nodes -q 2>/dev/null)'",
    [WORD_PROGRAM] = "-f -a '(evenstep programs -q 2>/dev/null)'",
    [WORD_SHELL] = "-f -a 'bash zsh fish'",
    [WORD_ACTION] = "-f", /* print_command */
    [WORD_DATASET] = "-f -a '(evenstep datasets -q 2>/dev/null)'",
    [WORD_SWEEP] = "-f -a '(evenstep sweeps -q 2>/dev/null)'",
};

static void print_place(const struct command *c, const char *place, enum word_kind kind, FILE *out)
{
    fprintf(out, "complete -c evenstep -n '__evenstep_at %s %s' %s", c->name, place, offers[kind]);
    if (kind == WORD_ACTION && c->actions) {
        fprintf(out, " -a '%s'", c->actions);
    }
    fputc('\n', out);
}

static void print_arguments(const struct command *c, FILE *out)
{
    char place[32];
    int least, most, places = argument_places(c);
    command_range(c, &least, &most);
    for (int i = 0; i < places; i++) {
        snprintf(place, sizeof place, "-eq %d", i + 1);
        print_place(c, place, argument_kind(c, i), out);
    }
    if (most < 0) {
        snprintf(place, sizeof place, "-gt %d", places);
        print_place(c, place, argument_kind(c, COMMAND_OPTIONS), out);
    }
}

static void print_values(const struct command *c, const struct opt *options, FILE *out)
{
    fprintf(out, "set -g __evenstep_values_%s", c->name);
    for (const struct opt *o = options; o->name; o++) {
        if (o->kind != OPT_FLAG) {
            fprintf(out, " --%s", o->name);
            if (command_letter(c, o->name)) {
                fprintf(out, " -%c", command_letter(c, o->name));
            }
        }
    }
    fputc('\n', out);
}

static void print_command(const struct command *c, FILE *out)
{
    struct opt options[COMMAND_OPTIONS];
    command_options(c, options);
    print_values(c, options, out);
    fprintf(out, "complete -c evenstep -n __fish_use_subcommand -f -a %s -d ", c->name);
    print_quoted(c->help, out);
    fputc('\n', out);
    for (const struct opt *o = options; o->name; o++) {
        char letter[8] = "";
        if (command_letter(c, o->name)) {
            snprintf(letter, sizeof letter, " -s %c", command_letter(c, o->name));
        }
        fprintf(out, "complete -c evenstep -n '__evenstep_at %s'%s -l %s", c->name, letter,
                o->name);
        if (o->kind != OPT_FLAG) {
            int n;
            bool few = choices_of(o->metavar, &n) != NULL;
            fprintf(out, " -r %s", few ? "-f -a '" : offers[word_kind(o->metavar)]);
            print_choices(o, " ", out);
            fputs(few ? "'" : "", out);
        }
        fputs(" -d ", out);
        print_quoted(o->help, out);
        fputc('\n', out);
    }
    print_arguments(c, out);
}

void print_fish(FILE *out)
{
    fputs(
        "# fish completion for evenstep; made by `evenstep completion fish`.\n"
        "# whether the word is of this command, and where: as `-eq 1`, its first argument;\n"
        "# __evenstep_values_COMMAND: its options that take a value\n"
        "function __evenstep_at -a command compares place\n"
        "    set -l words (commandline -opc)\n"
        "    test \"$words[2]\" = $command; or return 1\n"
        "    test -n \"$place\"; or return 0\n"
        "    set -l values __evenstep_values_$command\n"
        "    set -l at 1\n"
        "    set -l before ''\n"
        "    for word in $words[3..]\n"
        "        if not contains -- \"$before\" $$values; and not string match -q -- '-*' $word\n"
        "            set at (math $at + 1)\n"
        "        end\n"
        "        set before $word\n"
        "    end\n"
        "    test $at $compares $place\n"
        "end\n"
        "complete -c evenstep -f\n"
        "complete -c evenstep -n __fish_use_subcommand -l help -d 'prints what there is'\n"
        "complete -c evenstep -n __fish_use_subcommand -l version -d 'prints the version'\n",
        out);
    for (const struct command *c = commands; c->name; c++) {
        print_command(c, out);
    }
}
