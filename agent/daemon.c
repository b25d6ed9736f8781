/* The daemons of this host: see daemon.h. One is started, watched, and ended with everything that
 * it started.
 *
 *   started ── its mpirun ends, or the link to it breaks ─────► it ends by itself
 *      └────── its lease is gone for LEASE_PATIENCE seconds ──► TERM, KILL; then every process that
 *                                                               has EVENSTEP_LAUNCH=NONCE
 *
 * A store that is away says nothing about leases. Only answers of the store that say "gone" count,
 * so a restart of Redis ends no training.
 */
#include "agent/daemon.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/daemon_parts.h"
#include "agent/leftovers.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"

static const double lease_patience = 5, lease_every = 1, stop_grace = 3;
enum { ANSWER_SECONDS = 60, DAEMONS_HERE = 256 };
/* Parents of the folders for Open MPI: sockets, shared memory. */
static const char *const parents[] = {"/tmp", "/dev/shm"};

struct daemon {
    struct daemon *next;
    struct request request;
    pid_t pid;
    uint64_t ticks;
    char output[PATH_MAX];
    double looked_at, gone_since; /* when the lease was read, and since when it is gone; 0: it is
                                     there */
    bool ended, told;
    int code;
    char why[200];
};

struct daemons {
    struct daemon_config config;
    struct daemon *list; /* owned */
    int n;
};

/* Removes folders of killed agents, whose daemons ended with them. */
static void sweep(void)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "es-%d-", (int)geteuid());
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        leftovers_sweep(parents[i], prefix);
    }
}

struct daemons *daemons_new(const struct daemon_config *config, struct err *e)
{
    struct daemons *d = calloc(1, sizeof *d);
    if (!d) {
        err_set(e, ERR_MEMORY, "cannot start daemons: memory ran out");
        return NULL;
    }
    d->config = *config;
    sweep();
    return d;
}

int daemons_running(const struct daemons *d)
{
    return d->n;
}

/* ---- start ----------------------------------------------------------------------------------- */

static void make_folders(const struct daemon *m, const struct run_as *as)
{
    char dir[64];
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        proc_remove_tree(daemon_tmp(dir, parents[i], &m->request), NULL);
        if (mkdir(dir, 0700) != 0) {
            log_warn("agent", "cannot make a folder for Open MPI", "path=%s", dir);
        }
        leftovers_own(dir);
        if (run_as_given(as) && run_as_folder(as, dir, NULL) < 0) {
            log_warn("agent", "cannot give a folder to the ranks' user", "path=%s", dir);
        }
    }
}

static void remove_folders(const struct daemon *m)
{
    char dir[64];
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
        proc_remove_tree(daemon_tmp(dir, parents[i], &m->request), NULL);
    }
    unlink(m->output);
}

int daemons_start(struct daemons *d, const struct request *r, struct err *e)
{
    struct daemon *m = d->n < DAEMONS_HERE ? calloc(1, sizeof *m) : NULL;
    struct daemon_line line = {0};
    if (!m) {
        return err_set(e, ERR_MEMORY, "cannot start a daemon: %d run on this host already", d->n);
    }
    m->request = *r;
    snprintf(m->output, sizeof m->output, "%s/daemon-%s-%d-%d.out", d->config.data_dir, r->job,
             r->attempt, r->daemon);
    unlink(m->output);
    make_folders(m, d->config.as);
    int rc = daemon_line_make(&line, &d->config, r, e);
    if (rc == 0) {
        struct proc_spec spec = {.argv = (const char *const *)line.argv,
                                 .env = (const char *const *)line.env,
                                 .only_env = true,
                                 .stdout_path = m->output,
                                 .stderr_path = m->output,
                                 .cwd = "/",
                                 .as = d->config.as,
                                 .new_session = true,
                                 .die_with_parent = true};
        m->pid = proc_start(&spec, e);
        rc = m->pid < 0 ? m->pid : 0;
        if (rc < 0) {
            err_hint(e, "install Open MPI (package openmpi-bin)");
        }
    }
    daemon_line_free(&line);
    if (rc < 0) {
        remove_folders(m);
        free(m);
        return rc;
    }
    m->ticks = proc_start_ticks(m->pid);
    m->next = d->list;
    d->list = m;
    d->n++;
    log_info("agent", "daemon started", "job=%s attempt=%d daemon=%d pid=%d", r->job, r->attempt,
             r->daemon, (int)m->pid);
    return 0;
}

/* ---- end ------------------------------------------------------------------------------------- */

static void last_words(struct daemon *m)
{
    char *text = proc_read_file(m->output, 1 << 20, NULL, NULL), *rest = NULL;
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[strspn(line, "-= ")]) {
            snprintf(m->why, sizeof m->why, "%s", line);
        }
    }
    free(text);
}

/* Ends the processes that a daemon started and left behind. */
static void end_stragglers(const struct daemon *m)
{
    char mark[96];
    snprintf(mark, sizeof mark, "EVENSTEP_LAUNCH=%s", m->request.nonce);
    const char *marks[] = {mark, NULL};
    double until = clock_now() + 5;
    while (proc_signal_marked(marks, SIGKILL) > 0 && clock_now() < until) {
        clock_sleep(0.02);
    }
}

static void settle(struct daemon *m)
{
    char quoted[300];
    m->ended = true;
    end_stragglers(m);
    last_words(m);
    remove_folders(m);
    log_info("agent", "daemon ended", "job=%s attempt=%d code=%d why=%s", m->request.job,
             m->request.attempt, m->code, log_quote(quoted, sizeof quoted, m->why));
}

static void end(struct daemon *m, double grace)
{
    if (proc_alive(m->pid, m->ticks)) {
        proc_stop(m->pid, grace);
        m->code = -1;
    }
    settle(m);
}

void daemons_free(struct daemons *d, double grace)
{
    while (d && d->list) {
        struct daemon *m = d->list;
        d->list = m->next;
        if (!m->ended) {
            end(m, grace);
        }
        free(m);
    }
    free(d);
}

/* ---- a turn ---------------------------------------------------------------------------------- */

int daemons_answer(struct store *s, const struct sign_key *key, const char *nonce,
                   const char *state, int code, const char *message, struct err *e)
{
    char box[96];
    struct request_answer a = {.nonce = nonce, .state = state, .message = message, .code = code};
    json_t *body = request_answer_json(&a);
    char *text = body ? sign_seal(key, "answer", body, e) : NULL;
    snprintf(box, sizeof box, "answer.%s", nonce);
    int rc = text ? store_mail_put(s, box, text, ANSWER_SECONDS, e) : -ERR_MEMORY;
    json_decref(body);
    free(text);
    return rc;
}

static void look_at_lease(struct daemon *m, struct store *s, double now)
{
    char name[96];
    if (now - m->looked_at < lease_every) {
        return;
    }
    m->looked_at = now;
    snprintf(name, sizeof name, "launch.%s", m->request.nonce);
    if (store_lease_there(s, name, NULL) != LEASE_GONE) { /* it is held, or the store cannot tell */
        m->gone_since = 0;
    } else if (m->gone_since == 0) {
        m->gone_since = now;
    } else if (now - m->gone_since >= lease_patience) {
        log_warn("agent", "mpirun is gone, its daemon ends", "job=%s attempt=%d", m->request.job,
                 m->request.attempt);
        end(m, stop_grace);
        snprintf(m->why, sizeof m->why, "mpirun on the coordinator's host is gone");
    }
}

void daemons_tick(struct daemons *d, struct store *s, const struct sign_key *key, double now)
{
    for (struct daemon **at = &d->list, *m; (m = *at);) {
        if (!m->ended && proc_poll(m->pid, &m->code)) {
            settle(m);
        }
        if (!m->ended) {
            look_at_lease(m, s, now);
        }
        if (!m->ended) {
            at = &m->next;
            continue;
        }
        daemons_answer(s, key, m->request.nonce, "ended", m->code, m->why,
                       NULL); /* if the store is away, nobody waits for this answer */
        *at = m->next;
        d->n--;
        free(m);
    }
}
