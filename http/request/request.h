/* One request, from its header to its answer: who asks, what the path and query say, the body.
 * Belongs to one connection. Query values are checked against the route's list before the handler
 * runs (request_check_query), so the readers below only convert.
 */
#ifndef HTTP_REQUEST_REQUEST_H
#define HTTP_REQUEST_REQUEST_H

#include "common/text/buf.h"
#include "http/access/auth.h"
#include "http/threads/connections.h"
#include "http/content/upload.h"
#include "http/internal.h"
#include "http/answer/recent.h"
#include "http/answer/reply.h"
#include "http/routes.h"
#include "http/threads/work.h"
#include "store/store.h"

struct MHD_Connection;
struct guarded;

enum {
    REQUEST_ID = 65,
    REQUEST_TARGET = 256,
    REQUEST_NOTE = 200,
    PROBLEM_BYTES = 480,    /* the sentence of a refusal */
    REQUEST_KEY_MOST = 255, /* characters of an idempotency key */
    REQUEST_KEY = REQUEST_KEY_MOST + AUTH_NAME + 16
};

struct request {
    struct work_item item; /* first: dispatch.c gives it to the threads of work.h */
    struct http_server *server;
    struct MHD_Connection *connection;
    struct guarded *guarded;
    struct route_match match;
    const char *method, *version; /* borrowed from the connection; "HTTP/1.1" */
    const char *path;             /* borrowed from it, decoded */
    char target[REQUEST_TARGET];  /* path and query as they came; "" if they are longer */
    const char *host;             /* its Host header, or what an absolute target names instead */
    char authority[HOSTS_NAME];   /* of an absolute target, or "" */
    char id[REQUEST_ID];          /* X-Request-Id: the client's, or a new one */
    double received;              /* clock_now() when its header was complete */
    double asked;                 /* and when it was last asked whether an upload may go on */
    bool begun;                   /* the header was looked at */
    bool long_target;             /* the request line is too long: 414 */
    bool closes;                  /* where its body ends is not certain: the connection is closed */
    bool done;                    /* the handler has run, `reply` can be sent */
    bool bad_target;              /* it is ambiguous (an encoded slash, a space) or malformed */
    struct identity who;
    char note[REQUEST_NOTE]; /* what it changes, for the audit (trail.h) */
    bool unsure; /* only the store knows its session: it is asked on a thread of work.h */
    struct buf body;
    size_t counted;              /* bytes of `body`'s memory in server->body_bytes */
    struct upload upload;        /* the body of a route that takes a file */
    size_t discarded;            /* bytes of a body that is not kept */
    struct recent_waiter waiter; /* for an answer that another request makes (recent.h) */
    struct recent_ticket ticket; /* of the answer that this one makes for all */
    bool refused; /* `reply` was decided before the body; the body is read and dropped */
    struct reply reply;
    json_t
        *words; /* {"state": "failed,cancelled"}: of lists whose words came one by one; or NULL */
    struct jsonx_problems problems; /* go into the answer if the handler fails */
};

const char *request_header(const struct request *q, const char *name); /* borrowed, or NULL */
/* How many headers of the name there are. */
int request_headers(const struct request *q, const char *name);
/* Where its connection comes from; NULL: not known. Borrowed. */
const struct sockaddr *request_address(const struct request *q);
/* GET, HEAD or OPTIONS. */
bool request_reads_only(const struct request *q);
/* The value of a query parameter, or NULL; of a list that is given several times its words with
 * commas between. Borrowed. */
const char *request_param(const struct request *q, const char *name);
long request_int(const struct request *q, const char *name, long fallback);
double request_real(const struct request *q, const char *name, double fallback);
bool request_bool(const struct request *q, const char *name);
/* Every query parameter must be in the route's list and of its type; ERR_INVALID with all problems
 * otherwise. */
int request_check_query(struct request *q, struct err *e);
/* ERR_INVALID: "WHAT is not valid: " and the first of the request's problems, of which there is at
 * least one. */
int request_not_valid(const struct request *q, const char *what, struct err *e);
/* The same of a document, with the place of its first problem: "WHAT is not valid: /epochs: …". */
int request_document_not_valid(const struct request *q, const char *what, struct err *e);
/* If *e is ERR_INVALID, reports it as a problem of this query parameter. Returns the error's
 * code. */
int request_blame(struct request *q, const char *param, const struct err *e);
/* How much its Accept headers want a media type: 0 to 1000, or -1: it has none. */
int request_accepts(const struct request *q, const char *type);
/* For an answer that is offered as JSON and CSV: does the client want CSV? By ?format=, else by
 * Accept. */
bool request_wants_csv(const struct request *q);
/* Compares If-Match with the ETag of the resource in the path. false: `out` is a 412. */
bool request_matches(const struct request *q, const char *etag, struct reply *out);
/* The body as JSON: new reference, or NULL with ERR_SYNTAX. */
json_t *request_json(struct request *q, struct err *e);
/* The body as an object with no keys but `keys` (NULL-terminated). */
json_t *request_object(struct request *q, const char *const *keys, struct err *e);
/* The Idempotency-Key as the store compares it: the same word is another key if it comes with
 * another token, or if it is for another kind of resource (`kind`: a prefix of at most 10
 * characters). 0: none was given; 1: it is in scoped[]; ERR_INVALID if it is empty or too long. */
int request_idempotency_key(const struct request *q, const char *kind, char scoped[REQUEST_KEY],
                            struct err *e);
struct store *request_store(const struct request *q, struct err *e); /* the thread's own */
bool request_is_job(const char *id); /* has it the form of a job's id? */
/* The job id of the path: a malformed id is ERR_NOT_FOUND, so an id is safe in file names. */
const char *request_job(const struct request *q, struct err *e);
/* DATA_DIR/jobs/ID[/sub] into out. */
int request_job_path(const struct request *q, const char *sub, char *out, size_t bytes,
                     struct err *e);
/* The same, of a job that is known to be there: by its folder, else by the store. */
int request_job_folder(const struct request *q, const char *sub, char *out, size_t bytes,
                       struct err *e);
/* The job of the path, whole. New reference. */
json_t *request_whole_job(const struct request *q, struct err *e);

#endif
