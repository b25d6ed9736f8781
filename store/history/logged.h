/* Metrics that a program logged, in a history: logged.bin beside the other files (parts.h). Inside
 * store/ only.
 *
 *   meta.json    {"logged": ["bleu", …]}: names, in the order in which they first came
 *   logged.bin   records of 40 bytes: step, epoch, time, value (NaN: not finite), and the index of
 *                the name. There is no such file where nothing was logged
 *
 * A name that has 4,096 points gets a further one only if its step is 1/4,096 beyond the last one:
 * in a long run of S steps, each logged, it has some 4,096 (1 + ln(S / 4,096)).
 */
#ifndef STORE_HISTORY_LOGGED_H
#define STORE_HISTORY_LOGGED_H

#include <jansson.h>

#include "common/err.h"
#include "job/documents/ranks/logged.h"
#include "store/history/records.h"

struct logged_track {
    struct records records;
    /* by name, of the points that count: */
    int64_t count[LOGGED_NAMES], told[LOGGED_NAMES]; /* how many; the last one's step, -1: none */
    double newest[LOGGED_NAMES];                     /* the newest value, kept or not */
    bool full;                                       /* the log has said that names are left out */
};

int logged_track_open(struct logged_track *t, const char *dir, const json_t *meta, struct err *e);
void logged_track_close(struct logged_track *t);
/* Appends points. One before its name's last step is left out without error, since points may come
 * twice; one at that step takes the other's place. A new name writes meta.json. */
int logged_track_append(struct logged_track *t, const char *dir, json_t *meta,
                        const struct logged *l, struct err *e);
int logged_track_supersede(struct logged_track *t, const char *dir, json_t *meta, int64_t version,
                           struct err *e);
int logged_track_sync(struct logged_track *t, const char *dir, struct err *e);
/* {name: newest value, or null}; NULL: nothing was logged. New reference. */
json_t *logged_track_newest(const struct logged_track *t, const json_t *meta);

#endif
