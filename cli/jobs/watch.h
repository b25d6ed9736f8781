/* A job's progress until it ends. */
#ifndef CLI_JOBS_WATCH_H
#define CLI_JOBS_WATCH_H

#include "cli/session.h"

/* How a job is watched. */
struct watch {
    FILE *out;  /* where its progress is drawn: in place on a terminal, else a line for each
                   tenth */
    bool nodes; /* on a terminal, also a bar for each node */
    /* Called with the job's document before each drawing; with NULL if the service did not answer.
     * Negative, with s->err set: the watching ends. The function may be NULL. */
    int (*seen)(void *ctx, const json_t *job);
    void *ctx;
};

/* A service that is away; all zero while it is not. */
struct outage {
    double since; /* clock_now() */
    bool told;
};
/* Call it when a request has failed with s->err. True: the service may come back, so the caller
 * asks again; the second time this is told on stderr. False: it is another error, or the service
 * was away for too long. */
bool watch_waits(const struct session *s, struct outage *away);
/* Call it when a request was answered: tells so if the outage was told, and clears s->err. */
void watch_has_answer(struct session *s, struct outage *away);
/* Shows a job until it ends; a service that is restarted is waited for. Its exit status (status.h),
 * or negative: s->err says what is wrong. */
int watch_job(struct session *s, const char *id, const struct watch *how);
/* As `evenstep watch` does it: on stdout, with the bars of nodes; with --json progress goes to
 * stderr and the job's document, once it has ended, to stdout. */
int watch_to_end(struct session *s, const char *id);

#endif
