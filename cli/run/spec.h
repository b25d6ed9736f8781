/* The job that `evenstep run` submits, from its options. */
#ifndef CLI_RUN_SPEC_H
#define CLI_RUN_SPEC_H

#include <jansson.h>
#include <limits.h>

#include "common/opt.h"

/* Which program is run, and how. */
struct run_program {
    char folder[PATH_MAX]; /* that goes to the nodes; absolute */
    char file[PATH_MAX];   /* the program in it, relative */
    char name[64];         /* the job's, if none is given: the file's without its ending */
    bool is_python;        /* else the file is executed itself; true before: whatever its name is */
    const char *module;    /* borrowed: it runs as `python -m MODULE`; NULL: as a file */
    char *const *args;     /* borrowed; n_args of them */
    int n_args;
};

/* FILE as it was given, and the folder to pack (NULL: the one that it is in). ERR_INVALID if it is
 * neither Python nor executable, or is not in the folder. */
int run_program_find(struct run_program *p, const char *file, const char *folder, struct err *e);
/* The same for MODULE of `python -m MODULE`: a module or a package of the current folder, which is
 * the folder to pack if none is given. */
int run_module_find(struct run_program *p, const char *module, const char *folder, struct err *e);
/* The interpreter that --python names: a name that the nodes look up, or a path. A path that does
 * not begin with / is of the current folder and must be there; links in it stay, since a virtual
 * environment is known by the path of its link. */
int run_python(const struct opt_values *options, char out[PATH_MAX], struct err *e);
/* The job spec without the program's digest, which only the service knows. It is made of the
 * options --workers, --strategy, --name, --python, --ddp, --env, and every --set. A new reference;
 * NULL with an error.
 */
json_t *run_spec(const struct run_program *p, const struct opt_values *options, struct err *e);

#endif
