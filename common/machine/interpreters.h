/* The Python interpreters that a host offers to users' programs, and the packages of each
 * (packages.h). A thread asks them, so that no caller waits for an interpreter. It first asks which
 * packages each one finds, which takes a fraction of a second. It then tries to import each
 * package, but only with interpreters that an operator has named. It asks each question once.
 */
#ifndef COMMON_MACHINE_INTERPRETERS_H
#define COMMON_MACHINE_INTERPRETERS_H

#include <jansson.h>

#include "common/err.h"
#include "common/opt.h"

struct interpreters;

/* The option --python of `evenstep serve` and evenstep-agent: a path of an executable, or a name
 * that is looked up in PATH. */
#define INTERPRETERS_OPTION                                                                 \
    {                                                                                       \
        "python", "PATH", OPT_LIST, NULL, 0, 0,                                             \
            "an interpreter for programs of users; the first one given runs what asks for " \
            "python3 (default: the python3 in the PATH)"                                    \
    }
/* Returns an error that says what is wrong with the option's values. */
int interpreters_check(const struct opt_values *options, struct err *e);

/* Starts to ask the interpreters that --python names, or `python3` if it names none. `path`
 * replaces PATH for looking up names; NULL: ours. Both are borrowed until interpreters_stop. */
struct interpreters *interpreters_start(const struct opt_values *options, const char *path,
                                        struct err *e);
/* What is known so far, in the order of --python; a new reference:
 *   [{"path": "/srv/venv/bin/python", "packages": {"python3": "3.12.1", "torch": "2.5.1"},
 *     "broken": {"jax": "ImportError('…')"}}]
 * If --python names none, there is one entry with the path "python3". "packages" is missing if the
 * interpreter did not answer. "broken" lists what cannot be imported, and is missing if everything
 * can. NULL: the first answers are still due; each interpreter has at most 20 s. */
json_t *interpreters_tell(struct interpreters *i);
/* Stops asking. NULL is harmless. */
void interpreters_stop(struct interpreters *i);

#endif
