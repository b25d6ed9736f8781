/* Options from one table. The command line overrides the environment (EVENSTEP_NAME), which
 * overrides the configuration file (name = value). --help and the example configuration are printed
 * from the same table.
 */
#ifndef COMMON_OPT_H
#define COMMON_OPT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/err.h"

enum opt_kind { OPT_FLAG, OPT_STRING, OPT_INT, OPT_REAL, OPT_LIST };

struct opt {
    const char *name;    /* "data-dir" */
    const char *metavar; /* "DIR" */
    enum opt_kind kind;
    const char *fallback; /* text of the default, or NULL */
    double min, max;      /* for numbers */
    const char *help;     /* one sentence */
};

struct opt_values; /* parsed; owns every string */

/* Parses argv[0..argc) (no program name). Positionals are kept in order. `--config FILE` is known
 * to every table. NULL with every problem in the message (separated by "; ") if anything is wrong.
 */
struct opt_values *opt_parse(const struct opt *table, int argc, char **argv, struct err *e);
/* What opt_begin() found. Functions that call it return the same. */
enum opt_begun {
    OPT_TO_DO, /* the program goes on */
    OPT_HELPED /* --help was printed; nothing else to do */
};
/* How a program starts: as opt_parse(), and answers `--help`, which every table has. Returns enum
 * opt_begun, or negative. The caller owns *v after OPT_TO_DO; otherwise it is NULL. */
int opt_begin(const struct opt *table, const char *usage, int argc, char **argv,
              struct opt_values **v, struct err *e);
void opt_free(struct opt_values *v);
const char *opt_string(const struct opt_values *v,
                       const char *name); /* NULL if not given, no default */
long opt_int(const struct opt_values *v, const char *name);
double opt_real(const struct opt_values *v, const char *name);
bool opt_flag(const struct opt_values *v, const char *name);
int opt_count(const struct opt_values *v, const char *name); /* of an OPT_LIST */
const char *opt_item(const struct opt_values *v, const char *name, int i);
bool opt_given(const struct opt_values *v, const char *name); /* by any source, not by default */
int opt_positionals(const struct opt_values *v);
const char *opt_positional(const struct opt_values *v, int i);
/* The index of the first positional; argc or more if there is none. For a command whose positionals
 * belong to another program and are not parsed. */
int opt_first_positional(const struct opt *table, int argc, char **argv);

#endif
