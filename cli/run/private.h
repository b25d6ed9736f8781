/* A service of its own for one `evenstep run`, where none is running: `evenstep serve` with its own
 * Redis and data folder, on loopback, with a local node for each worker. It lives as long as the
 * process that started it, whatever ends that, and leaves nothing behind.
 *
 *     evenstep run ─┬─ lifeline (a pipe) ─► keeper ── evenstep serve ── redis-server, ranks
 *                   └─ HTTP ─────────────────────────►┘
 *
 * The keeper is a child in a session of its own. When the lifeline closes, it ends the service and
 * removes the folder.
 */
#ifndef CLI_RUN_PRIVATE_H
#define CLI_RUN_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct private_service {
    char dir[PATH_MAX], token_file[PATH_MAX + 16];
    char url[256];
    char link[512]; /* for a browser, with a code for one use */
    pid_t keeper;   /* 0: there is none */
    int lifeline;
};

/* Starts one with `nodes` local nodes, among which this machine's cores are shared equally (one
 * thread each at least), and waits until it answers. `python`: the nodes' interpreter, as `serve
 * --python` takes it; NULL: the python3 in the PATH. Needs private_stop either way. */
int private_start(struct private_service *p, int nodes, const char *python, struct err *e);
/* Ends it, and waits until it is gone; in a hurry it is killed with all that it runs. Nothing if it
 * was never started. */
void private_stop(struct private_service *p, bool hurry);

#endif
