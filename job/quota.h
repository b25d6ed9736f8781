/* Quotas: what an owner of jobs may have (docs/shares.md). The document, which an admin writes:
 *
 *   {"default": {"queued": 100, "running": 4, "nodes": 8, "disk": "50G",
 *                "seconds": 3600, "max_seconds": 86400,
 *                "max_wall_seconds": 172800},
 *    "owners": {"ada": {"nodes": 16, "disk": null}},
 *    "preemption": {"after": 30, "keep": 60}}
 *
 * An owner has what their entry says, and for what it leaves out the default; null is no limit.
 */
#ifndef JOB_QUOTA_H
#define JOB_QUOTA_H

#include "common/json/jsonx.h"

/* -1: no limit. */
struct quota {
    int queued, running, nodes; /* jobs that wait; attempts at a time; nodes that these hold */
    int64_t disk_bytes;         /* bytes that folders of jobs take; at the limit no further job is
                                   queued */
    double seconds;             /* max_seconds of a job whose spec gives none */
    double max_seconds;         /* the most that a spec may give */
    double max_wall_seconds;    /* the same for max_wall_seconds, and the value for a spec that
                                   gives none */
};

/* Reports every mistake of the document. true: there is none. */
bool quota_check(const json_t *document, struct jsonx_problems *problems);
/* What this owner may have; of a document that was checked, or NULL: everything. */
void quota_of(const json_t *document, const char *owner, struct quota *out);
/* When jobs of lower priority are paused for one that waits for their nodes: `after` seconds of
 * waiting (-1: never), those whose attempt has run for `keep` seconds (60 if not given). */
struct preemption {
    double after, keep;
};
struct preemption quota_preemption(const json_t *document);
/* The schema Quota. New reference. */
json_t *quota_json(const struct quota *q);

#endif
