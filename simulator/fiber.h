/* Fibers: one per virtual rank, each with a small stack of its own, run one at a time by the
 * scheduler. A blocking call of a rank yields; the scheduler resumes it when virtual time or a
 * message says so. */
#ifndef SIMULATOR_FIBER_H
#define SIMULATOR_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

struct fiber;

/* The stack is mapped with a guard page; pages are used only as they are touched. */
struct fiber *fiber_new(void (*fn)(void *arg), void *arg, size_t stack_bytes, struct err *e);
void fiber_free(struct fiber *f);
void fiber_resume(struct fiber *f); /* from the scheduler; returns when the fiber yields or ends */
void fiber_yield(void);             /* from within a fiber */
/* Runs fn, which does not yield, on the stack of the scheduler, for calls that need more than a
 * fiber's small one. */
void fiber_outside(void (*fn)(void *arg), void *arg);
bool fiber_ended(const struct fiber *f);

#endif
