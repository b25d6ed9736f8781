/* See seals.h. */
#include "coordinator/monitor/seals.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/process/proc.h"

enum { RANKS_MOST = SPEC_WORKERS + PLAN_SERVERS, LINE = SIGN_HEX }; /* 64 digits, a newline */

struct seals {
    char job_dir[PLAN_PATH];
    /* Keys of one attempt. Those of the last two attempts asked for are kept, since a new attempt
     * reads what the old one left. */
    struct attempt_keys {
        int attempt, ranks; /* attempt -1: empty */
        struct rank_keys {
            struct sign_key own, rows;
        } * keys; /* [ranks]; owned */
    } known[2];
    int next; /* which of the two is replaced */
};

static void path_of(char out[PATH_MAX + 32], const char *job_dir, int attempt)
{
    snprintf(out, PATH_MAX + 32, "%s/seals/%d", job_dir, attempt);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void key_of_rank(const struct plan *plan, int rank, const struct sign_key *attempt,
                        struct sign_key *out)
{
    const struct plan_worker *with = plan_worker_with(plan, rank);
    *out = *attempt;
    if (with && with->agent) {
        seal_of_host(attempt, with->host, out);
    }
}

int seals_draw(const struct plan *plan, struct sign_key *given, struct err *e)
{
    char path[PATH_MAX + 32];
    int ranks = plan->n_workers + plan->servers;
    char *text = malloc((size_t)ranks * LINE + 1);
    snprintf(path, sizeof path, "%s/seals", plan->job_dir);
    int rc = text ? proc_mkdirs(path, 0700, e)
                  : err_set(e, ERR_MEMORY, "cannot draw the attempt's keys: memory ran out");
    if (rc < 0 || (rc = sign_random(given, e)) < 0) {
        goto out;
    }
    for (int r = 0; r < ranks; r++) {
        struct sign_key key;
        key_of_rank(plan, r, given, &key);
        sign_hex(&key, text + (size_t)r * LINE);
        text[(size_t)(r + 1) * LINE - 1] = '\n';
    }
    path_of(path, plan->job_dir, plan->from.attempt);
    rc = proc_write_file(path, text, (size_t)ranks * LINE, 0600, e);
out:
    free(text);
    return rc;
}

bool seals_there(const struct plan *plan)
{
    char path[PATH_MAX + 32];
    path_of(path, plan->job_dir, plan->from.attempt);
    return access(path, R_OK) == 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct seals *seals_open(const char *job_dir, struct err *e)
{
    struct seals *s = calloc(1, sizeof *s);
    if (!s) {
        err_set(e, ERR_MEMORY, "cannot hold the attempt's keys: memory ran out");
        return NULL;
    }
    snprintf(s->job_dir, sizeof s->job_dir, "%s", job_dir);
    s->known[0].attempt = s->known[1].attempt = -1;
    return s;
}

void seals_close(struct seals *s)
{
    for (int i = 0; s && i < 2; i++) {
        free(s->known[i].keys);
    }
    free(s);
}

/* Reads an attempt's keys. Without a readable file the attempt has no ranks. */
static void load(struct seals *s, int attempt, struct attempt_keys *out)
{
    char path[PATH_MAX + 32];
    size_t n = 0;
    path_of(path, s->job_dir, attempt);
    char *text = proc_read_file(path, (size_t)RANKS_MOST * LINE, &n, NULL);
    free(out->keys);
    *out =
        (struct attempt_keys){.attempt = attempt, .keys = calloc(n / LINE + 1, sizeof *out->keys)};
    for (size_t r = 0; text && out->keys && r < n / LINE; r++) {
        char *line = text + r * LINE;
        line[LINE - 1] = 0;
        if (sign_unhex(line, &out->keys[r].own, NULL) < 0) {
            break;
        }
        seal_of_rows(&out->keys[r].own, &out->keys[r].rows);
        out->ranks++;
    }
    free(text);
}

static const struct rank_keys *find(struct seals *s, int attempt, int rank)
{
    struct attempt_keys *of = NULL;
    for (int i = 0; i < 2; i++) {
        of = s->known[i].attempt == attempt ? &s->known[i] : of;
    }
    if (!of) {
        of = &s->known[s->next];
        s->next = 1 - s->next;
        load(s, attempt, of);
    }
    return rank >= 0 && rank < of->ranks ? &of->keys[rank] : NULL;
}

const struct sign_key *seals_of(struct seals *s, int attempt, int rank)
{
    const struct rank_keys *keys = find(s, attempt, rank);
    return keys ? &keys->own : NULL;
}

const struct sign_key *seals_of_rows(struct seals *s, int attempt, int rank)
{
    const struct rank_keys *keys = find(s, attempt, rank);
    return keys ? &keys->rows : NULL;
}
