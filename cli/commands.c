/* The table of commands, and how one is found and run; see commands.h. */
#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

#include "cli/jobs/jobs.h"
#include "cli/nodes/nodes.h"
#include "cli/print/print.h"
#include "cli/service/service.h"
#include "cli/session.h"
#include "common/text/terminal.h"
#include "common/text/text.h"
#include "common/json/jsonx.h"
#include "common/version.h"
#include "coordinator/coordinator.h"

const struct command commands[] = {
    {"run", COMMANDS_JOBS, "[OPTIONS] FILE [ARGS…]", "runs a program of yours as a job",
     run_options, .main = command_run},
    {"submit", COMMANDS_JOBS, "FILE|-", "submits a job, prints its id", submit_options,
     .run = command_submit},
    {"sweep", COMMANDS_JOBS, "FILE|-", "tries a job with several settings, prints the sweep's id",
     sweep_options, .run = command_sweep},
    {"sweeps", COMMANDS_JOBS, "[SWEEP]", "lists sweeps, or shows, watches, cancels, deletes one",
     sweeps_options, .run = command_sweeps},
    {"jobs", COMMANDS_JOBS, "", "lists jobs", jobs_options, .run = command_jobs},
    {"show", COMMANDS_JOBS, "ID", "shows a job and its workers", NULL, .run = command_show},
    {"watch", COMMANDS_JOBS, "ID", "shows a job's progress, with a bar of each node, until it ends",
     NULL, .run = command_watch},
    {"logs", COMMANDS_JOBS, "ID", "prints the launcher's log, a rank's, or the end of all",
     logs_options, .run = command_logs},
    {"events", COMMANDS_JOBS, "[ID]", "prints the events of all jobs, or of one, as they happen",
     NULL, .run = command_events},
    {"cancel", COMMANDS_JOBS, "ID", "ends a job", NULL, .run = command_cancel},
    {"pause", COMMANDS_JOBS, "ID", "has a job write a checkpoint and give its nodes back", NULL,
     .run = command_pause},
    {"resume", COMMANDS_JOBS, "ID", "queues a paused job again", NULL, .run = command_resume},
    {"priority", COMMANDS_JOBS, "ID N", "changes a job's place in the queue", NULL,
     .run = command_priority},
    {"tag", COMMANDS_JOBS, "ID [TAG…]",
     "shows a job's tags and note; +TAG adds one, -TAG takes it away", tag_options,
     .run = command_tag},
    {"artifacts", COMMANDS_JOBS, "ID", "lists the files that a job made", NULL,
     .run = command_artifacts},
    {"download", COMMANDS_JOBS, "ID [NAME…]",
     "brings a job's files back, those that are named or all", download_options,
     .run = command_download},
    {"delete", COMMANDS_JOBS, "ID…", "deletes jobs that have ended, with their files", NULL,
     .run = command_delete},
    {"compare", COMMANDS_FIGURES, "ID ID…", "shows in what jobs differ: settings and results", NULL,
     .run = command_compare},
    {"series", COMMANDS_FIGURES, "ID", "prints curves, such as the loss", series_options,
     .run = command_series},
    {"steps", COMMANDS_FIGURES, "ID", "prints the last steps of each node", steps_options,
     .run = command_steps},
    {"staleness", COMMANDS_FIGURES, "ID", "prints each node's staleness", NULL,
     .run = command_staleness},
    {"assignments", COMMANDS_FIGURES, "ID", "lists changes of minibatches with their reasons", NULL,
     .run = command_assignments},
    {"evaluations", COMMANDS_FIGURES, "ID", "lists results on the test set", evaluations_options,
     .run = command_evaluations},
    {"logged", COMMANDS_FIGURES, "ID", "prints the metrics that a program logged", logged_options,
     .run = command_logged},
    {"norms", COMMANDS_FIGURES, "ID", "prints norms of each tensor and of its gradient",
     norms_options, .run = command_norms},
    {"confusion", COMMANDS_FIGURES, "ID", "accuracy per class of a job's model, confusion matrix",
     NULL, .run = command_confusion},
    {"evaluate", COMMANDS_FIGURES, "MODEL",
     "accuracy per class of a model's file, confusion matrix; needs no service", evaluate_options,
     .main = command_evaluate},
    {"export", COMMANDS_FIGURES, "MODEL",
     "writes a model's file as ONNX, for other programs; needs no service", export_options,
     .main = command_export},
    {"nodes", COMMANDS_NODES, "[NODE]", "lists nodes, or shows one", nodes_options,
     .run = command_nodes},
    {"load", COMMANDS_NODES, "NODE", "prints how busy a node was: processors, memory, network, GPU",
     load_options, .run = command_load},
    {"drain", COMMANDS_NODES, "NODE…", "gives nodes no further job; those they have go on", NULL,
     .run = command_drain},
    {"enable", COMMANDS_NODES, "NODE…", "takes back drain and disable", NULL,
     .run = command_enable},
    {"disable", COMMANDS_NODES, "NODE…", "takes nodes out of use", NULL, .run = command_disable},
    {"forget", COMMANDS_NODES, "NODE…", "forgets nodes that are lost", NULL, .run = command_forget},
    {"serve", COMMANDS_SERVICE, "[OPTIONS]", "runs the service: REST, page, scheduler",
     serve_options, .main = serve_main},
    {"catalog", COMMANDS_SERVICE, "",
     "lists strategies, layers, optimizers, data formats with their parameters", NULL,
     .run = command_catalog},
    {"datasets", COMMANDS_SERVICE, "[ACTION] [DATASET] [FILE…]",
     "lists data sets, or shows, uploads, deletes some", datasets_options, .run = command_datasets,
     .actions = "list show upload delete"},
    {"programs", COMMANDS_SERVICE, "[PROGRAM…]",
     "lists programs that jobs can name, or deletes uploaded ones", programs_options,
     .run = command_programs},
    {"link", COMMANDS_SERVICE, "", "prints a fresh address for the browser", link_options,
     .run = command_link},
    {"token", COMMANDS_SERVICE, "ACTION [NAME|ID…]",
     "`create NAME` prints a new token; `list`; `revoke ID…` (admins)", token_options,
     .run = command_token, .actions = "create list revoke"},
    {"owners", COMMANDS_SERVICE, "", "lists owners of jobs: what they have, and may have", NULL,
     .run = command_owners},
    {"webhooks", COMMANDS_SERVICE, "[ACTION] [NAME…]",
     "lists addresses told of jobs' states; `create URL`, `show`, `delete`", webhook_options,
     .run = command_webhooks, .actions = "create list show delete"},
    {"accounting", COMMANDS_SERVICE, "", "lists node-hours by owner, job or day",
     accounting_options, .run = command_accounting},
    {"audit", COMMANDS_SERVICE, "", "lists changes and who made them, newest first (admins)",
     audit_options, .run = command_audit},
    {"disk", COMMANDS_SERVICE, "", "prints what uses the disk, and which jobs could be deleted",
     NULL, .run = command_disk},
    {"whoami", COMMANDS_SERVICE, "", "prints who the token makes you, and the role", NULL,
     .run = command_whoami},
    {"metrics", COMMANDS_SERVICE, "", "prints the service's figures, as Prometheus reads them",
     NULL, .run = command_metrics},
    {"completion", COMMANDS_SERVICE, "SHELL",
     "prints what bash, zsh or fish complete commands with", NULL, .main = command_completion},
    {"manual", COMMANDS_SERVICE, "", "prints the manual: `evenstep manual | man -l -`",
     manual_options, .main = command_manual},
    {0},
};

const char *const command_groups[] = {
    [COMMANDS_JOBS] = "Jobs",
    [COMMANDS_FIGURES] = "Figures",
    [COMMANDS_NODES] = "Nodes",
    [COMMANDS_SERVICE] = "Service",
};
enum { GROUPS = sizeof command_groups / sizeof *command_groups, COMMANDS_MOST = 64 };

const struct opt shared_options[] = {
    CLIENT_ADDRESS,
    {"json", NULL, OPT_FLAG, NULL, 0, 0, "prints JSON on stdout, and nothing else there"},
    CLIENT_HELP,
    {0},
};

void command_options(const struct command *c, struct opt out[COMMAND_OPTIONS])
{
    int n = 0;
    memset(out, 0, sizeof *out * COMMAND_OPTIONS);
    for (const struct opt *o = c->options; o && o->name; o++) {
        BUG_ON(n + 1 >= COMMAND_OPTIONS);
        out[n++] = *o;
    }
    for (const struct opt *o = shared_options; c->run && o->name; o++) {
        BUG_ON(n + 1 >= COMMAND_OPTIONS);
        out[n++] = *o;
    }
}

void command_range(const struct command *c, int *least, int *most)
{
    *least = *most = 0;
    for (const char *word = c->arguments; *word; word += strspn(word, " ")) {
        size_t n = strcspn(word, " ");
        bool repeats = memmem(word, n, "…", strlen("…")) != NULL;
        *least += *word == '[' ? 0 : 1;
        *most = repeats || *most < 0 ? -1 : *most + 1;
        word += n;
    }
}

/* ---- letters --------------------------------------------------------------------------------- */

static const struct letter {
    char letter;
    const char *option;
} letters[] = {{'f', "follow"}, {'q', "quiet"}, {'h', "help"}, {'o', "output"}};

char command_letter(const struct command *c, const char *option)
{
    for (size_t i = 0; c->run && i < sizeof letters / sizeof *letters; i++) {
        if (strcmp(letters[i].option, option) == 0) {
            return letters[i].letter;
        }
    }
    return 0;
}

/* "-f" becomes "--follow" if the command has that option; else it stays. */
static char *spell_out(const struct command *c, const struct opt *options, char *argument,
                       char out[64])
{
    if (argument[0] != '-' || !argument[1] || argument[1] == '-' || argument[2]) {
        return argument;
    }
    for (const struct opt *o = options; o->name; o++) {
        if (command_letter(c, o->name) == argument[1]) {
            snprintf(out, 64, "--%s", o->name);
            return out;
        }
    }
    return argument;
}

/* ---- running --------------------------------------------------------------------------------- */

/* "evenstep token create|list|revoke [NAME|ID…]" */
static void usage_text(const struct command *c, char *out, size_t size)
{
    const char *word = c->actions ? strstr(c->arguments, "ACTION") : NULL;
    int before = word ? (int)(word - c->arguments) : 0;
    int n = snprintf(out, size, "evenstep %s%s%.*s%s", c->name, *c->arguments ? " " : "", before,
                     c->arguments, word ? c->actions : "");
    for (char *p = out + n - (word ? strlen(c->actions) : 0); word && *p; p++) {
        *p = *p == ' ' ? '|' : *p;
    }
    snprintf(out + n, size - (size_t)n, "%s", word ? word + strlen("ACTION") : c->arguments);
}

static int talk(const struct command *c, int argc, char **argv)
{
    struct opt options[COMMAND_OPTIONS];
    struct session s;
    char text[200], (*words)[64] = calloc((size_t)argc + 1, sizeof *words);
    char **spelt = calloc((size_t)argc + 1, sizeof *spelt);
    struct usage use = {.options = options, .text = text};
    int status = STATUS_FAILED;
    BUG_ON(!words || !spelt);
    command_options(c, options);
    command_range(c, &use.least, &use.most);
    usage_text(c, text, sizeof text);
    bool ours = true; /* until "--" */
    for (int i = 0; i < argc; i++) {
        ours = ours && strcmp(argv[i], "--") != 0;
        spelt[i] = ours ? spell_out(c, options, argv[i], words[i]) : argv[i];
    }
    if (session_open(&s, &use, argc, spelt, &status)) {
        int result = c->run(&s);
        status = session_close(&s, result);
    }
    free(spelt);
    free(words);
    return status;
}

/* Prints a line of the list of commands; on a narrow terminal the help comes on the next line. */
static void help_command(const struct command *c, int width, FILE *out)
{
    enum { NARROW = 72, BESIDE = 27, BENEATH = 6 };
    char first[80];
    const char *words = c->main == command_run ? "FILE [ARGS…]" : c->arguments;
    bool narrow = width > 0 && width < NARROW;
    snprintf(first, sizeof first, "  %-11s %-*s ", c->name,
             12 + (int)(strlen(words) - (size_t)text_columns(words)), words);
    if (narrow) {
        fprintf(out, "  %s %s\n", c->name, words);
    }
    text_fill(out, width, narrow ? "      " : first, narrow ? BENEATH : BESIDE, c->help);
}

static void help(FILE *out)
{
    int width = terminal_width(out);
    fprintf(out, "usage: evenstep COMMAND [arguments]\n");
    for (int group = 0; group < GROUPS; group++) {
        fprintf(out, "\n%s\n", command_groups[group]);
        for (const struct command *c = commands; c->name; c++) {
            if ((int)c->group == group) {
                help_command(c, width, out);
            }
        }
    }
    fputc('\n', out);
    text_fill(out, width, "", 0, "ID is a job's id, the beginning of one, or a job's name.");
    text_fill(out, width, "", 0,
              "Commands talk to EVENSTEP_URL (http://127.0.0.1:8080) with the token "
              "EVENSTEP_TOKEN.");
    text_fill(out, width, "", 0, "`evenstep COMMAND --help` says more.");
    fprintf(out, "\nExit status\n");
#define X(name, number, text)                             \
    {                                                     \
        char first[16];                                   \
        snprintf(first, sizeof first, "  %-4d ", number); \
        text_fill(out, width, first, 7, text);            \
    }
    STATUSES(X)
#undef X
    text_fill(out, width, "  128+ ", 7, "a signal ended it; 130 is Ctrl-C");
}

/* Our name of a command that is called otherwise in other programs. */
static const char *called(const char *name)
{
    static const char *const others[][2] = {
        {"list", "jobs"},   {"ls", "jobs"},     {"ps", "jobs"},       {"status", "show"},
        {"info", "show"},   {"get", "show"},    {"describe", "show"}, {"rm", "delete"},
        {"stop", "cancel"}, {"kill", "cancel"}, {"start", "serve"},   {"train", "submit"},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(name, others[i][0]) == 0) {
            return others[i][1];
        }
    }
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COMMANDS_MOST];
    char shown[64];
    int n = 0;
    text_shown(shown, sizeof shown, name);
    if (name[0] == '-') {
        fprintf(stderr, "evenstep: '%s' stands before the command; options follow it\n", shown);
        return STATUS_USAGE;
    }
    for (const struct command *c = commands; c->name && n < COMMANDS_MOST; c++) {
        names[n++] = c->name;
    }
    const char *nearest = called(name) ? called(name) : jsonx_nearest(name, names, n);
    fprintf(stderr, "evenstep: there is no command '%s'%s%s%s\n", shown,
            nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    return STATUS_USAGE;
}

int commands_main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return STATUS_DONE;
    }
    if (strcmp(name, "--version") == 0) {
        printf("evenstep %s\n", EVENSTEP_VERSION);
        return STATUS_DONE;
    }
    for (const struct command *c = commands; c->name; c++) {
        if (strcmp(name, c->name) == 0) {
            return c->main ? c->main(argc - 2, argv + 2) : talk(c, argc - 2, argv + 2);
        }
    }
    if (!*name) {
        help(stderr);
        return STATUS_USAGE;
    }
    return unknown(name);
}
