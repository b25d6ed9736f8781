/* Quotas: what an owner of jobs may have (docs/shares.md). The document, which an admin writes:
 *
 *   {"default": {"queued": 100, "running": 4, "nodes": 8, "disk": "50G",
 *                "seconds": 3600, "max_seconds": 86400,
 *                "max_wall_seconds": 172800},
 *    "owners": {"ada": {"nodes": 16, "disk": null}},
 *    "preemption": {"after": 30, "keep": 60}}
 *
 * An owner's entry comes first, and the default for limits that it leaves out; null is no limit.
 */
#ifndef JOB_QUOTA_H
#define JOB_QUOTA_H

#include "common/json/jsonx.h"

/* -1: no limit. */
struct quota {
    int queued, running, nodes; /* queued jobs; attempts at a time; nodes of these attempts */
    int64_t disk_bytes;         /* bytes of the folders of jobs; at the limit no further job is
                                   queued */
    double seconds;             /* max_seconds of a job without one in its spec */
    double max_seconds;         /* the most that a spec may give */
    double max_wall_seconds;    /* the same for max_wall_seconds, and the value for a spec without
                                   it */
};

/* Reports every mistake in the document. true: there is none. */
bool quota_check(const json_t *document, struct jsonx_problems *problems);
/* The quota of this owner, from a checked document; NULL: no limits. */
void quota_of(const json_t *document, const char *owner, struct quota *out);
/* When jobs of lower priority are paused for a job that waits for their nodes: after `after`
 * seconds of waiting (-1: never), and only if their attempt has run for `keep` seconds (60 if not
 * given). */
struct preemption {
    double after, keep;
};
struct preemption quota_preemption(const json_t *document);
/* The schema Quota. New reference. */
json_t *quota_json(const struct quota *q);

#endif
