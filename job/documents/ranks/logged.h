/* Metrics that a user's program logs and that are no evaluation: numbers by name, each with the
 * step after which it was logged. A rank reports those of the last moments as one fact (fact.h).
 * The monitor keeps them in the job's history (store/history.h), which the API returns.
 *
 *   {"names": ["bleu", …], "steps": […], "epochs": […], "times": […], "values": […]}
 *
 * The five lists have one entry for each point, oldest first. null as a value: NaN or infinite.
 */
#ifndef JOB_DOCUMENTS_RANKS_LOGGED_H
#define JOB_DOCUMENTS_RANKS_LOGGED_H

#include "job/documents/document.h"

/* bytes of a name; metrics of a job; points of a document */
enum { LOGGED_NAME = 64, LOGGED_NAMES = 64, LOGGED_MOST = 256 };

struct logged_point {
    char name[LOGGED_NAME];
    int64_t step;
    double epoch, time; /* time: seconds since the job's start */
    double value;       /* NaN: not finite */
};

struct logged {
    int count;
    struct logged_point *points; /* [count]; owned by what was read */
};

/* Adds the keys to `j`, and reads them. */
void logged_write(json_t *j, const struct logged *l);
void logged_parse(const struct document *d, struct logged *out);
void logged_release(struct logged *l);

#endif
