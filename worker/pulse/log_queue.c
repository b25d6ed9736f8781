/* See log_queue.h. */
#include "worker/pulse/log_queue.h"

#include <string.h>

/* Points of the same name as point i, from `from` on. */
static int count_like(const struct log_queue *q, int i, int from)
{
    int n = 0;
    for (int k = from; k < q->n; k++) {
        n += strcmp(q->points[k].name, q->points[i].name) == 0;
    }
    return n;
}

/* Makes room. The names with at most half as many points as the most frequent one keep theirs.
 * There are fewer names than points, so some points go. */
static void thin(struct log_queue *q)
{
    int count[LOGGED_MOST], most = 0, kept = 0;
    bool stays[LOGGED_MOST];
    for (int i = 0; i < q->n; i++) {
        count[i] = count_like(q, i, 0);
        most = count[i] > most ? count[i] : most;
    }
    for (int i = 0; i < q->n; i++) {
        stays[i] = 2 * count[i] <= most || count_like(q, i, i + 1) % 2 == 0;
    }
    for (int i = 0; i < q->n; i++) {
        if (stays[i]) {
            q->points[kept++] = q->points[i];
        }
    }
    q->n = kept;
}

void log_queue_add(struct log_queue *q, const struct logged_point *p)
{
    for (int i = q->n - 1; i >= 0 && q->points[i].step == p->step; i--) {
        if (strcmp(q->points[i].name, p->name) == 0) {
            q->points[i] = *p;
            return;
        }
    }
    if (q->n == LOGGED_MOST) {
        thin(q);
    }
    q->points[q->n++] = *p;
}

bool log_queue_is_urgent(const struct log_queue *q)
{
    return q->n >= LOGGED_MOST / 2;
}
