/* Questions that programs of ours answer as JSON on their standard output: the worker's, the
 * simulator's. Each is a process of its own, which is ended when its time is over. */
#ifndef COORDINATOR_PLANNING_ASK_H
#define COORDINATOR_PLANNING_ASK_H

#include "common/json/jsonx.h"

struct ask_limits {
    double seconds;
    int64_t memory_bytes; /* 0: none */
};

/* Runs a program and parses what it printed; its output goes through files in `dir`. NULL after an
 * error, also that of the program, unless it printed {"error": …} itself. New reference. */
json_t *ask_program(const char *const *argv, const char *dir, const struct ask_limits *limits,
                    struct err *e);

#endif
