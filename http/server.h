/* The HTTP room: the only code that includes microhttpd. It reads and writes the store; what it
 * must ask of the coordinator it gets as a table of functions at start.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/json/jsonx.h"
#include "job/quota.h"

struct http_hooks { /* may be called from any HTTP thread */
    void *ctx;
    /* Placement for a dry run: {"nodes":[{"rank","node","device","batch","memory_bytes"}],
     * "warnings":[…] (people/warning.h), "starts": "now"|"waits for …"}. Problems that only
     * machines know (missing data, too many workers for the nodes there are: a warning, not an
     * error) are added. `programs`: whoever asks may give a program's command (ROLE_PROGRAMS). */
    json_t *(*plan)(void *ctx, const json_t *spec, bool programs, struct jsonx_problems *problems,
                    struct err *e);
    /* A prediction of the job's step time and staleness, for a dry run: {"approximate", "reason",
     * "strategies": [...]}. The function may be NULL. `samples`: of an epoch, 0 if they are not
     * known. */
    json_t *(*predict)(void *ctx, const json_t *spec, int64_t samples, struct err *e);
    /* The quota of this owner of jobs. The function may be NULL: no quotas. */
    void (*quota)(void *ctx, const char *owner, struct quota *out);
    /* The schema Disk. It does not ask the store, which may be away because the disk is full. */
    json_t *(*disk)(void *ctx);
    /* Wakes the scheduler: something was queued, cancelled, paused, resumed. */
    void (*wake)(void *ctx);
    /* Data sets beneath EVENSTEP_DATA:
     * [{"path","format","shape","classes","samples","test_samples"}]. */
    json_t *(*datasets)(void *ctx, struct err *e);
    /* One data set, with a few samples: the schema DatasetShown. */
    json_t *(*dataset)(void *ctx, const char *path, struct err *e);
    /* Keeps an uploaded data set under this name: the schema UploadedDataset. Every wrong entry is
     * a problem. *fresh: it was not there before. NULL: uploads are not taken here. */
    json_t *(*dataset_add)(void *ctx, const char *name, FILE *archive, const char *who, bool *fresh,
                           struct jsonx_problems *problems, struct err *e);
    int (*dataset_delete)(void *ctx, const char *name, struct err *e);
    /* The confusion matrix of a job's model (job/documents/results/scored.h); may take minutes. */
    json_t *(*scored)(void *ctx, const char *id, struct err *e);
    /* Users' programs (the schema Program), all of them. */
    json_t *(*programs)(void *ctx, struct err *e);
    /* Keeps an uploaded program. Every wrong entry and key is a problem. *fresh: it was not there
     * before. */
    json_t *(*program_add)(void *ctx, FILE *archive, const char *who, bool *fresh,
                           struct jsonx_problems *problems, struct err *e);
    int (*program_delete)(void *ctx, const char *digest, struct err *e);
    bool uploads; /* program_add is offered; else it is refused with a sentence */
};

/* How long a connection may take, in seconds; 0: as docs/security.md says. */
struct http_deadlines {
    double header, body, idle; /* until they are complete (http/threads/guard.h) */
    unsigned unread;           /* without taking a byte of an answer */
};

struct http_config {
    const char *listen;     /* "127.0.0.1:8080"; port 0: any free one */
    const char *data_dir;   /* jobs/ID/{logs,history,checkpoints,artifacts} are beneath it */
    const char *static_dir; /* the dashboard's files */
    const char *store_url, *store_password;
    const char *token_file;         /* made with mode 0600 if absent; its token is an admin's */
    const char *const *allow_hosts; /* NULL-terminated, or NULL */
    const char *tls_cert, *tls_key; /* PEM files; NULL: without TLS */
    struct {                        /* sign-in by a proxy (access/proxy.h); header NULL: none */
        const char *header, *role;
        const char *const *addresses; /* NULL-terminated, or NULL */
    } proxy;
    bool local_webhooks; /* webhooks may lead to this host and its link */
    struct http_deadlines deadlines;
    struct http_hooks hooks;
};

struct http_server;
/* Listens and answers from here on, on threads of its own; all of `config` is copied but for what
 * hooks point to. NULL: the address cannot be listened on, or a file of tokens or of TLS is wrong.
 * The store need not be there. */
struct http_server *http_start(const struct http_config *config, struct err *e);
void http_stop(struct http_server *s); /* resumes and closes every connection */
int http_port(const struct http_server *s);
/* "http" or "https". */
const char *http_scheme(const struct http_server *s);
/* What the command line can pin (--pin), "sha256//…"; false: without TLS. */
bool http_pin(const struct http_server *s, char out[64]);
/* Token file and certificate are read again if they have changed. */
void http_read_again(struct http_server *s);
/* A fresh address for the browser with a code for one use within 24 hours, into out[512]. */
int http_link(struct http_server *s, char *out, struct err *e);

#endif
