/* See supersede.h. */
#include "store/history/supersede.h"

#include "store/history.h"
#include "store/history/meta.h"

/* Finds the positions in [a, b) with step > version. Whole buckets are judged by their least and
 * greatest step. */
static int find_dead(struct pyramid_reader *r, int64_t a, int64_t b, int64_t version,
                     struct spans *out, struct err *e)
{
    int rc = 0;
    while (a < b && rc == 0) {
        int64_t next = a + 1;
        bool dead = false;
        const struct pyramid_bucket *bucket =
            a % PYRAMID_FAN == 0 && a + PYRAMID_FAN <= b && a / PYRAMID_FAN < r->count[1]
                ? pyramid_level(r, 1, a / PYRAMID_FAN)
                : NULL;
        if (bucket && (bucket->step_max <= version || bucket->step_min > version)) {
            next = a + PYRAMID_FAN;
            dead = bucket->step_min > version;
        } else {
            dead = pyramid_row(r, a)->step > version;
        }
        rc = dead ? spans_add(out, a, next, e) : 0;
        a = next;
    }
    return rc;
}

int supersede_rows(json_t *meta, const char *track, struct pyramid_reader *r, int64_t version,
                   struct err *e)
{
    struct spans more = {0};
    int rc = find_dead(r, 0, r->count[0], version, &more, e);
    if (rc >= 0) {
        rc = history_meta_add_dead(meta, track, &more, e);
    }
    spans_release(&more);
    return rc;
}
