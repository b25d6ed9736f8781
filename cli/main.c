/* `evenstep`: the service (`evenstep serve`) and the command line that talks to one. One line of
 * the table per command. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "common/jsonx.h"
#include "common/version.h"
#include "coordinator/coordinator.h"

static const struct command {
    const char *name, *arguments, *help;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"serve", "[options]", "runs the service: REST, page, scheduler", serve_main},
    {"run", "FILE [ARGS]", "runs a program of yours as a job", command_run},
    {"submit", "FILE|-", "submits a job, prints its id", command_submit},
    {"jobs", "", "lists jobs", command_jobs},
    {"show", "ID", "shows a job and its workers", command_show},
    {"watch", "ID", "shows a job's progress until it ends", command_watch},
    {"cancel", "ID", "ends a job", command_cancel},
    {"pause", "ID", "has a job write a checkpoint and give its nodes back", command_pause},
    {"resume", "ID", "queues a paused job again", command_resume},
    {"nodes", "", "lists nodes", command_nodes},
    {"catalog", "", "lists strategies, layers, optimizers, data formats with their parameters",
     command_catalog},
    {"evaluate", "MODEL",
     "accuracy per class and confusion matrix of a model's file; needs no service",
     command_evaluate},
    {"link", "", "prints a fresh address for the browser", command_link},
};

enum { COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *out)
{
    fprintf(out, "usage: evenstep COMMAND [arguments]\n\n");
    for (int i = 0; i < COMMANDS; i++) {
        fprintf(out, "  %-8s %-12s %s\n", commands[i].name, commands[i].arguments,
                commands[i].help);
    }
    fprintf(
        out,
        "\nCommands talk to EVENSTEP_URL (http://127.0.0.1:8080) with the token EVENSTEP_TOKEN.\n"
        "`evenstep COMMAND --help` says more.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        printf("evenstep %s\n", EVENSTEP_VERSION);
        return 0;
    }
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 2, argv + 2);
        }
    }
    if (!*name) {
        help(stderr);
        return 2;
    }
    const char *near = jsonx_nearest(name, names, COMMANDS);
    fprintf(stderr, "evenstep: there is no command '%.40s'%s%s%s\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return 2;
}
