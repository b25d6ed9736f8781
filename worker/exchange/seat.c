/* See seat.h. */
#include "worker/exchange/seat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

enum { TEXT_MOST = 1 << 20 };

struct seat_head {
    struct seat seat; /* without the counters */
    int32_t text_bytes;
};

static int give(struct comm *c, int rank, void *data, size_t bytes, struct err *e)
{
    struct message m;
    message_send(&m, c, rank, TAG_SEAT, data, bytes, NULL, 0);
    return comm_wait(c, &m.op, e);
}

/* The message is short, so the socket takes it at once. */
int seat_give(const struct rank_env *env, const struct departure *back, int64_t version,
              int64_t epoch, struct err *e)
{
    json_t *j = staleness_dump(&back->staleness);
    size_t n = 0;
    char *text = jsonx_dump(j, false, &n);
    struct seat_head head = {{.elapsed = comm_now(env->comm) - env->job_start,
                              .version = version,
                              .epoch = epoch,
                              .pushes = back->pushes,
                              .epochs = env->spec->epochs,
                              .open = env->program.open},
                             (int32_t)n + 1};
    snprintf(head.seat.digest, sizeof head.seat.digest, "%s",
             env->data_digest ? env->data_digest : "");
    json_decref(j);
    int rc = text ? 0 : err_set(e, ERR_MEMORY, "cannot let a worker join: memory ran out");
    if (rc == 0 && (rc = give(env->comm, back->who, &head, sizeof head, e)) >= 0) {
        rc = give(env->comm, back->who, text, n + 1, e);
    }
    free(text);
    return rc;
}

static int take(struct comm *c, void *out, size_t bytes, struct err *e)
{
    struct message m;
    message_recv(&m, c, c->workers, TAG_SEAT, out, bytes, NULL, 0);
    return comm_wait(c, &m.op, e);
}

static json_t *take_counters(struct comm *c, int32_t bytes, struct err *e)
{
    if (bytes < 1 || bytes > TEXT_MOST) {
        err_set(e, ERR_PEER, "the keeper's message to a worker that joins is malformed");
        return NULL;
    }
    char *text = calloc(1, (size_t)bytes + 1);
    int rc = text ? take(c, text, (size_t)bytes, e)
                  : err_set(e, ERR_MEMORY, "cannot join: memory ran out");
    json_t *counters = rc >= 0 ? jsonx_parse(text, strlen(text), e) : NULL;
    free(text);
    return counters;
}

int seat_take(struct comm *c, struct seat *out, struct err *e)
{
    struct seat_head head;
    int rc = take(c, &head, sizeof head, e);
    if (rc < 0) {
        return rc;
    }
    *out = head.seat;
    out->digest[sizeof out->digest - 1] = '\0';
    out->counters = take_counters(c, head.text_bytes, e);
    return out->counters ? 0 : -(int)e->code;
}
