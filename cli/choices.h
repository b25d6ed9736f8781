/* Options with a closed set of values, found by their metavar. A wrong value is refused before the
 * service is asked, and shells complete the valid ones (cli/print). */
#ifndef CLI_CHOICES_H
#define CLI_CHOICES_H

#include "common/opt.h"

/* The values of an option with this metavar; NULL: it may have any. *n: how many. */
const char *const *choices_of(const char *metavar, int *n);
/* Checks the values of the given options. ERR_INVALID names the first wrong one and lists the valid
 * ones. If the metavar ends with an S, like STATES, a value may be several, separated by commas. */
int choices_check(const struct opt *table, const struct opt_values *v, struct err *e);

#endif
