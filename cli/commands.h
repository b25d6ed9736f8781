/* The one table of commands: name, arguments, options, help, function. Dispatch, --help, the
 * completions of shells and the manual (cli/print) all read it, so a command is one line in
 * cli/commands.c and its function. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <stdio.h>

#include "common/opt.h"

struct session;

enum command_group { COMMANDS_JOBS, COMMANDS_FIGURES, COMMANDS_NODES, COMMANDS_SERVICE };

struct command {
    const char *name;
    enum command_group group;
    /* Words: ID, NODE, FILE, MODEL, PROGRAM, SWEEP, DATASET, SHELL, TAG, ACTION, N or ARGS. [X] may
     * be left out; a word followed by "…" may come several times. They decide how many arguments
     * there may be and what a shell completes. */
    const char *arguments;
    const char *help;                   /* a phrase: "lists jobs" */
    const struct opt *options;          /* its own, or NULL */
    int (*run)(struct session *s);      /* for commands that talk to a service, which get
                                           shared_options too */
    int (*main)(int argc, char **argv); /* for commands that talk to no service; argv begins after
                                           the name */
    const char *actions;                /* the values of ACTION: "create list"; NULL: it has none */
};

extern const struct command commands[]; /* the last has no name */
extern const char *const command_groups[];
extern const struct opt shared_options[]; /* of every command that talks to a service */

enum { COMMAND_OPTIONS = 48 };

/* All options of a command, with shared_options if it talks to a service. */
void command_options(const struct command *c, struct opt out[COMMAND_OPTIONS]);
/* How many arguments its words allow; *most is -1 if any number may come. */
void command_range(const struct command *c, int *least, int *most);
/* The letter that stands for an option of a command that talks to a service, as -f for --follow; 0:
 * there is none. */
char command_letter(const struct command *c, const char *option);
/* `evenstep ARGV`: finds the command and runs it. The exit status (status.h). */
int commands_main(int argc, char **argv);

int command_run(int argc, char **argv);      /* run/run.c */
int command_evaluate(int argc, char **argv); /* evaluate.c */
int command_export(int argc, char **argv);   /* export.c */
struct scored;
/* What `evaluate` prints of a model on a data set (evaluate.c). */
void evaluate_print(const struct scored *s);
extern const struct opt run_options[], evaluate_options[], export_options[];

#endif
