/* The audit: who changed what, from where, when, and what the answer was. A line of JSON for each
 * request that may change something, appended to files that nothing here ever alters:
 *
 *   DATA/audit/000001.jsonl … 000007.jsonl   oldest to newest, AUDIT_FILE_BYTES each
 *
 * The AUDIT_FILES newest are kept. A line reaches the kernel before its answer goes out, and the
 * disk when its file is full or the service ends: if the machine itself goes down, the last seconds
 * can be missing. Of requests without a known sender only AUDIT_STRANGERS a minute are written, so
 * that nobody can flood the files and push out older entries; the next entry counts those left out.
 */
#ifndef HTTP_ACCESS_AUDIT_H
#define HTTP_ACCESS_AUDIT_H

#include <jansson.h>
#include <stdbool.h>

#include "common/err.h"

enum {
    AUDIT_FILE_BYTES = 4 << 20,
    AUDIT_FILES = 32,
    AUDIT_STRANGERS = 10,
    AUDIT_ADDRESS = 64,
    AUDIT_CURSOR = 48
};

/* All borrowed. */
struct audit_entry {
    bool known; /* the sender has a token or a session */
    bool session;
    const char *who, *role, *token; /* token: its id */
    const char *from, *method, *path, *note, *request;
    int status;
};

struct audit; /* any thread may call */
struct audit *audit_open(const char *data_dir, struct err *e);
void audit_close(struct audit *a); /* NULL is fine */
/* Never fails: what cannot be written is counted and logged. */
void audit_add(struct audit *a, const struct audit_entry *entry);

/* Which entries are wanted; NULL: all. Borrowed. */
struct audit_query {
    const char *who, *since; /* since: "2026-01-02T03:04:05", or the beginning of such a time */
    const char *cursor;      /* `next` of the page before */
    int limit;
};
/* {"entries": [newest first], "next": cursor or null}. ERR_INVALID: the cursor or `since` is not
 * valid. */
json_t *audit_read(struct audit *a, const struct audit_query *q, struct err *e);

#endif
