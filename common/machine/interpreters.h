/* The interpreters of Python that a host has for programs of users, and what each has (packages.h).
 * A thread asks them, so that nothing waits for an interpreter: first which packages they find,
 * which takes a fraction of a second; then, only those that an operator has named, whether each
 * package can be imported. Nothing is asked twice.
 */
#ifndef COMMON_MACHINE_INTERPRETERS_H
#define COMMON_MACHINE_INTERPRETERS_H

#include <jansson.h>

#include "common/err.h"
#include "common/opt.h"

struct interpreters;

/* The option --python of `evenstep serve` and evenstep-agent: a path that can be run, or a name
 * that is looked up in PATH. */
#define INTERPRETERS_OPTION                                                                 \
    {                                                                                       \
        "python", "PATH", OPT_LIST, NULL, 0, 0,                                             \
            "an interpreter for programs of users; the first one given runs what asks for " \
            "python3 (default: the python3 in the PATH)"                                    \
    }
/* What is wrong with the option's values. */
int interpreters_check(const struct opt_values *options, struct err *e);

/* Begins to ask the interpreters that --python names, or else `python3`. `path`: PATH in which
 * names are looked up; NULL: ours. Both are borrowed until interpreters_stop. */
struct interpreters *interpreters_start(const struct opt_values *options, const char *path,
                                        struct err *e);
/* What is known by now, a new reference:
 *   [{"path": "/srv/venv/bin/python", "packages": {"python3": "3.12.1", "torch": "2.5.1"},
 *     "broken": {"jax": "ImportError('…')"}}]
 * in the order of --python; one entry of path "python3" where that names none. "packages" is
 * missing where the interpreter did not answer; "broken", which has what cannot be imported, where
 * nothing is. NULL: the first answers are still due, for 20 s an interpreter at most. */
json_t *interpreters_tell(struct interpreters *i);
/* Ends what is still being asked. NULL is harmless. */
void interpreters_stop(struct interpreters *i);

#endif
