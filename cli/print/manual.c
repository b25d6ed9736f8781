/* The manual, evenstep(1), in the man macros of roff: commands and options from their table, exit
 * statuses from theirs, and what a table cannot say. */
#include "cli/print/print.h"
#include "cli/status.h"
#include "common/manual.h"
#include "common/text/roff.h"
#include "common/version.h"

/* ---- commands -------------------------------------------------------------------------------- */

static void print_command(const struct command *c, FILE *out)
{
    char name[64];
    snprintf(name, sizeof name, "evenstep %s", c->name);
    roff_term(name, c->arguments, c->help, out);
    if (c->options) {
        fputs(".RS\n", out);
        for (const struct opt *o = c->options; o->name; o++) {
            manual_option(o, command_letter(c, o->name), out);
        }
        fputs(".RE\n", out);
    }
}

static void print_commands(FILE *out)
{
    roff_section("COMMANDS",
                 "ID is a job's id, the beginning of one, or a job's name. A word in brackets may "
                 "be left out; one with … may be repeated.",
                 out);
    for (int group = 0; group <= COMMANDS_SERVICE; group++) {
        fprintf(out, ".SS %s\n", command_groups[group]);
        for (const struct command *c = commands; c->name; c++) {
            if ((int)c->group == group) {
                print_command(c, out);
            }
        }
    }
}

static void print_shared(FILE *out)
{
    roff_section("OPTIONS", "Commands that talk to a service have, besides their own:", out);
    for (const struct opt *o = shared_options; o->name; o++) {
        manual_option(o, 0, out);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

static void print_statuses(FILE *out)
{
    roff_section("EXIT STATUS", NULL, out);
#define X(name, number, help) roff_term(#number, "", help, out);
    STATUSES(X)
#undef X
    roff_term("128 + N", "", "signal N ended it; 130 is Ctrl-C", out);
}

static void print_environment(FILE *out)
{
    roff_section("ENVIRONMENT",
                 "Every option is also EVENSTEP_ and its name in capitals, with - as _.", out);
    roff_term("EVENSTEP_URL", "", "address of the service", out);
    roff_term("EVENSTEP_TOKEN", "", "the token that commands ask with", out);
    roff_term("EVENSTEP_CONFIG", "", "file of options, NAME = VALUE in each line", out);
    roff_term("EVENSTEP_DATA", "", "folders of data sets, with colons between", out);
    roff_term("COLUMNS", "", "width of tables, where the terminal does not say it", out);
    roff_section("FILES", NULL, out);
    roff_term("./evenstep-data/token", "",
              "the token, where neither --token-file nor EVENSTEP_TOKEN is given", out);
}

static void print_examples(FILE *out)
{
    static const char *const lines[][2] = {
        {"evenstep submit --dry-run job.json", "checks a job and says where it would run"},
        {"evenstep run --workers 4 train.py", "runs a program of yours on four nodes"},
        {"evenstep watch 3f", "watches the job whose id begins with 3f"},
        {"evenstep logs night-run --rank 0 -f", "follows the log of a job's first rank"},
        {"evenstep jobs --state failed --json", "lists jobs for another program"},
    };
    roff_section("EXAMPLES", NULL, out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        roff_term(lines[i][0], "", lines[i][1], out);
    }
}

void print_manual(FILE *out)
{
    fprintf(out, ".\\\" Made by `evenstep manual`.\n.TH EVENSTEP 1 \"\" \"evenstep %s\" \"\"\n",
            EVENSTEP_VERSION);
    roff_section("NAME", NULL, out);
    fputs("evenstep \\- trains neural networks on clusters of unequal machines\n", out);
    roff_section("SYNOPSIS", NULL, out);
    fputs("\\fBevenstep\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n", out);
    roff_section("DESCRIPTION",
                 "The service (evenstep serve) keeps a queue of jobs and trains each on the nodes "
                 "that are free, with a minibatch for each node's speed. All other commands are "
                 "clients of its REST API. What people read goes to stdout as tables that fit the "
                 "terminal; with --json it is JSON alone. Errors go to stderr.",
                 out);
    print_commands(out);
    print_shared(out);
    print_statuses(out);
    print_environment(out);
    print_examples(out);
    roff_section("SEE ALSO", NULL, out);
    fputs(
        "\\fBevenstep\\-agent\\fR(1), \\fBevenstep\\-simulate\\fR(1), "
        "\\fBevenstep\\-worker\\fR(1)\n",
        out);
}
