/* The manual, evenstep(1), in the man macros of roff: commands and options from their table, exit
 * statuses from theirs, and what a table cannot say. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "cli/print/print.h"
#include "cli/status.h"
#include "common/version.h"

enum { LINE = 60 };

/* ---- text ------------------------------------------------------------------------------------ */

/* Bytes of the UTF-8 character at p, and its code point. */
static size_t decode(const unsigned char *p, uint32_t *code)
{
    size_t n = *p < 0x80 ? 1 : *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    *code = n == 1 ? *p : *p & (0xffu >> (n + 1));
    for (size_t i = 1; i < n && p[i]; i++) {
        *code = *code << 6 | (p[i] & 0x3fu);
    }
    return n;
}

/* Text as roff takes it for itself: - \ and ' as such, other than ASCII by number, in lines that an
 * editor shows whole. Nothing that begins a line is taken for a request. */
static void print_text(const char *text, FILE *out)
{
    const unsigned char *p = (const unsigned char *)text, *line = p;
    for (uint32_t code; *p; p += decode(p, &code)) {
        decode(p, &code);
        if (code == ' ' && p - line > LINE) {
            fputc('\n', out);
            line = p + 1;
        } else if (code >= 0x80) {
            fprintf(out, "\\[u%04X]", (unsigned)code);
        } else if (code == '\\') {
            fputs("\\e", out);
        } else if (code == '-') {
            fputs("\\-", out);
        } else if (code == '\'') {
            fputs("\\(aq", out);
        } else if (code == '.' && p == line) {
            fputs("\\&.", out);
        } else {
            fputc((int)code, out);
        }
    }
}

static void print_section(const char *title, const char *text, FILE *out)
{
    fprintf(out, ".SH %s\n", title);
    if (text) {
        print_text(text, out);
        fputc('\n', out);
    }
}

/* A term, and what it is, below it. */
static void print_term(const char *bold, const char *more, const char *help, FILE *out)
{
    fputs(".TP\n\\fB", out);
    print_text(bold, out);
    fputs("\\fR", out);
    if (*more) {
        fputs(" \\fI", out);
        print_text(more, out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    print_text(help, out);
    fputc('\n', out);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void print_option(const struct command *c, const struct opt *o, FILE *out)
{
    char name[100], help[512];
    char letter = c ? command_letter(c, o->name) : 0;
    if (letter) {
        snprintf(name, sizeof name, "-%c, --%s", letter, o->name);
    } else {
        snprintf(name, sizeof name, "--%s", o->name);
    }
    snprintf(help, sizeof help, "%s%s%s%s%s", o->help, o->fallback ? " (default: " : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "",
             o->kind == OPT_LIST ? " (may be repeated)" : "");
    print_term(name, o->metavar ? o->metavar : "", help, out);
}

static void print_command(const struct command *c, FILE *out)
{
    char name[64];
    snprintf(name, sizeof name, "evenstep %s", c->name);
    print_term(name, c->arguments, c->help, out);
    if (c->options) {
        fputs(".RS\n", out);
        for (const struct opt *o = c->options; o->name; o++) {
            print_option(c, o, out);
        }
        fputs(".RE\n", out);
    }
}

static void print_commands(FILE *out)
{
    print_section("COMMANDS",
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
    print_section("OPTIONS", "Commands that talk to a service have, besides their own:", out);
    for (const struct opt *o = shared_options; o->name; o++) {
        print_option(NULL, o, out);
    }
}

/* ---- the page -------------------------------------------------------------------------------- */

static void print_statuses(FILE *out)
{
    print_section("EXIT STATUS", NULL, out);
#define X(name, number, help) print_term(#number, "", help, out);
    STATUSES(X)
#undef X
    print_term("128 + N", "", "signal N ended it; 130 is Ctrl-C", out);
}

static void print_environment(FILE *out)
{
    print_section("ENVIRONMENT",
                  "Every option is also EVENSTEP_ and its name in capitals, with - as _.", out);
    print_term("EVENSTEP_URL", "", "address of the service", out);
    print_term("EVENSTEP_TOKEN", "", "the token that commands ask with", out);
    print_term("EVENSTEP_CONFIG", "", "file of options, NAME = VALUE in each line", out);
    print_term("EVENSTEP_DATA", "", "folders of data sets, with colons between", out);
    print_term("COLUMNS", "", "width of tables, where the terminal does not say it", out);
    print_section("FILES", NULL, out);
    print_term("./evenstep-data/token", "",
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
    print_section("EXAMPLES", NULL, out);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        print_term(lines[i][0], "", lines[i][1], out);
    }
}

void print_manual(FILE *out)
{
    fprintf(out, ".\\\" Made by `evenstep manual`.\n.TH EVENSTEP 1 \"\" \"evenstep %s\" \"\"\n",
            EVENSTEP_VERSION);
    print_section("NAME", NULL, out);
    fputs("evenstep \\- trains neural networks on clusters of unequal machines\n", out);
    print_section("SYNOPSIS", NULL, out);
    fputs("\\fBevenstep\\fR \\fICOMMAND\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n", out);
    print_section("DESCRIPTION",
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
}
