/* A program's manual page, made from its table of options. Such a program puts MANUAL_OPTION into
 * its table and starts with manual_begin(); `make` runs it for the page (cli/build.mk). The page of
 * evenstep(1), which has commands, is made in cli/print/manual.c. */
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
    const char *usage;                   /* for --help and the synopsis; starts with the name */
    const char *about;                   /* some sentences */
    const struct opt *options;           /* must contain "help" and MANUAL_OPTION */
    const struct manual_term *statuses;  /* exit statuses; this and the next arrays end with {0} */
    const struct manual_term *variables; /* environment, without those of options; or NULL */
    const struct manual_term *examples;  /* or NULL */
};

/* As opt_begin(); answers `--manual` as well. */
int manual_begin(const struct manual *m, int argc, char **argv, struct opt_values **v,
                 struct err *e);
/* Prints an option as a term of the page. `letter` is its short form, 0 for none. */
void manual_option(const struct opt *o, char letter, FILE *out);

#endif
