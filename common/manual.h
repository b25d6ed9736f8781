/* A program's page of the manual, made of its table of options. A program that has one takes
 * MANUAL_OPTION into its table and begins with manual_begin; `make` asks it for the page
 * (cli/build.mk). That of evenstep(1) has commands: cli/print/manual.c. */
#ifndef COMMON_MANUAL_H
#define COMMON_MANUAL_H

#include <stdio.h>

#include "common/opt.h"

#define MANUAL_OPTION                                                             \
    {                                                                             \
        "manual", NULL, OPT_FLAG, NULL, 0, 0, "prints the manual, for `man -l -`" \
    }

struct manual_term {
    const char *name, *help;
};

struct manual {
    const char *name;                    /* "evenstep-agent" */
    const char *brief;                   /* what it does, without capital and full stop */
    const char *usage;                   /* of --help and the synopsis; begins with the name */
    const char *about;                   /* some sentences */
    const struct opt *options;           /* has "help" and MANUAL_OPTION */
    const struct manual_term *statuses;  /* what it ends with; these and those below end with {0} */
    const struct manual_term *variables; /* of the environment, besides those of options; or NULL */
    const struct manual_term *examples;  /* or NULL */
};

/* As opt_begin; `--manual` is answered as well. */
int manual_begin(const struct manual *m, int argc, char **argv, struct opt_values **v,
                 struct err *e);
/* An option as a term of the page; letter: its short form, 0 for none. */
void manual_option(const struct opt *o, char letter, FILE *out);

#endif
