/* Open MPI's daemons that this agent runs, one per attempt that uses this host. Each ends when its
 * mpirun does, when its launch agent has given up its lease, and with this agent. One thread only.
 */
#ifndef AGENT_DAEMON_H
#define AGENT_DAEMON_H

#include <limits.h>

#include "agent/request.h"
#include "common/process/run_as.h"
#include "common/sign.h"
#include "store/store.h"

/* What every daemon is given. Strings are borrowed. */
struct daemon_config {
    const char *host;
    const char *store_url, *store_password; /* for workers; the password may be NULL */
    const char *data_roots;  /* where this host's data sets are, separated by colons */
    const char *data_dir;    /* where logs and received data are kept */
    const char *network;     /* CIDR for MPI's connections */
    const char *ports;       /* "FIRST-LAST", or NULL: any */
    int64_t cache_bytes;     /* the most that received data sets may use */
    const char *python;      /* interpreter for programs that ask for python3; NULL: the PATH's */
    const struct run_as *as; /* the user that daemons and ranks run as; NULL: our own */
};

/* The PATH of daemons and of what they start, including users' programs. */
char *daemon_path(char out[PATH_MAX]);

struct daemons; /* those that run */
struct daemons *daemons_new(const struct daemon_config *config, struct err *e);
/* Ends all daemons by TERM, after `grace` seconds by KILL, and frees *d. */
void daemons_free(struct daemons *d, double grace);
int daemons_running(const struct daemons *d);
int daemons_start(struct daemons *d, const struct request *r, struct err *e);
/* One turn: answers for daemons that have ended (box answer.NONCE, sealed with `key`), and ends
 * those whose lease is gone. */
void daemons_tick(struct daemons *d, struct store *s, const struct sign_key *key, double now);
/* Answers a request: state "started", "refused" or "ended". */
int daemons_answer(struct store *s, const struct sign_key *key, const char *nonce,
                   const char *state, int code, const char *message, struct err *e);
/* The daemon's argument list and environment, for tests: both NULL-terminated, freed by
 * daemon_line_free.
 */
struct daemon_line {
    char **argv, **env;
};
int daemon_line_make(struct daemon_line *out, const struct daemon_config *c,
                     const struct request *r, struct err *e);
void daemon_line_free(struct daemon_line *l);

#endif
