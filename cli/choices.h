/* Options whose values are a closed set, found by their metavar: a wrong value is told before the
 * service is asked, and shells complete the right ones (cli/print). */
#ifndef CLI_CHOICES_H
#define CLI_CHOICES_H

#include "common/opt.h"

/* The values of an option with this metavar; NULL: it may have any. *n: how many. */
const char *const *choices_of(const char *metavar, int *n);
/* 0 if all values of the options that were given are such; ERR_INVALID names the first that is
 * none, and lists what is. A value may be several with commas between where the metavar ends with
 * an S, as STATES. */
int choices_check(const struct opt *table, const struct opt_values *v, struct err *e);

#endif
