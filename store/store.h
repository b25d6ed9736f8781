/* The store keeps the facts of jobs in Redis, and their rows on disk (history.h). No other code
 * speaks to Redis.
 *
 * A struct store is a connection and belongs to one thread. A call blocks for 2 s at most. While
 * Redis is away calls return ERR_UNAVAILABLE, and each tries to connect again. store/redis/keys.def
 * lists the keys, docs/store-schema.md says what is in them.
 *
 * What belongs to a job is written only while the job exists (ERR_NOT_FOUND otherwise), so a late
 * writer does not bring back parts of a deleted job. Needs Redis 7.0 or newer.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/sign.h"
#include "job/documents/hosts/host_beat.h"
#include "job/filter.h"
#include "job/row.h"
#include "job/state.h"

struct store;

/* url: "redis://[user@]host:port/db", the same with "rediss" for TLS and its files (address.c),
 * "unix:PATH" or "unix:PATH?db=N". The password may be NULL; it is copied. Does not connect yet. */
struct store *store_open(const char *url, const char *password, struct err *e);
void store_close(struct store *s);
int store_ping(struct store *s, struct err *e);
const char *store_url(const struct store *s);
/* The same store as another user of Redis; only Redis over TCP has users. */
int store_url_as(const char *url, const char *user, char out[512], struct err *e);
/* Has the connection for blocking calls stayed open since the last such call? If not, Redis may
 * have been restarted in between. */
bool store_follows(struct store *s);
/* A number that grows with each connection opened for calls; 0: none was. A restarted Redis is
 * reached by a new connection. */
int64_t store_connection(const struct store *s);
/* Loads the functions that workers, keepers and agents call (functions.c). The coordinator calls it
 * after each new connection. */
int store_functions_load(struct store *s, struct err *e);

/* ---- the private server (redis/private.c) ---------------------------------------------------- */
enum server_start { SERVER_WAS_THERE, SERVER_STARTED };
/* Starts redis-server on DIR/redis.sock with an append-only file in DIR/redis, or finds the one
 * that is there (by its socket and pid file; it outlives a killed coordinator). Puts
 * "unix:DIR/redis.sock" into url[512]. Returns enum server_start, or negative. */
int redis_private_start(const char *dir, char *url, int *pid, struct err *e);
/* Asks it to save and end, and waits for it. */
void redis_private_stop(const char *dir);

/* ---- one coordinator at a time (redis/fence.c) ----------------------------------------------- */
enum {
    STORE_LEADER_MS = 6000, /* a lease that was not renewed for this long may be taken */
    STORE_INSTANCE = 33     /* 32 hex digits */
};
/* The fencing token of a coordinator's lease, for all its connections. 0: it never had one. */
struct store_fence {
    _Atomic int64_t token;
};
/* From now on every change through this connection carries the token; when another coordinator has
 * taken the lease, ERR_UNAVAILABLE. `fence` is borrowed until store_close(). */
void store_fence(struct store *s, const struct store_fence *fence);
/* A candidate for the lease. All fields are borrowed. */
struct store_candidate {
    const char *instance; /* a random id of this process */
    const json_t *who;    /* what others are told about it */
    const char *dead;     /* a holder that is known to have ended, whose lease may be taken at once;
                             or NULL */
    bool patient;         /* it does not take a lease that was not renewed in time */
    const char *store;    /* the store's name from now on, if it has none; or NULL */
};
/* Who has it. */
struct store_leader {
    char instance[STORE_INSTANCE];
    json_t *who; /* owned, or NULL */
    double age;  /* seconds since its last renewal */
};
void store_leader_release(struct store_leader *l);
enum store_leading { LEADER_OTHER, LEADER_SELF };
/* Takes the lease, or renews it (fence->token above 0). LEADER_SELF: it is ours, and fence->token
 * is its token. LEADER_OTHER: *leader (may be NULL) says whose it is, and the caller releases it. A
 * holder that could not renew in time keeps the lease until another one takes it. */
int store_leader_take(struct store *s, const struct store_candidate *c, struct store_fence *fence,
                      struct store_leader *leader, struct err *e);
/* The store's name among its coordinators; "" if none has had the lease yet. */
int store_leader_store(struct store *s, char out[STORE_INSTANCE], struct err *e);
/* Gives the lease back, so that the next coordinator need not wait. */
int store_leader_give(struct store *s, const char *instance, struct err *e);

/* ---- jobs (jobs/) ---------------------------------------------------------------------------- */
enum {
    STORE_ID = 17, /* 16 hex digits */
    STORE_VERSION = 88
};
enum job_created { JOB_CREATED, JOB_CREATED_BEFORE };
/* Queues a job. `spec` is stored as it is (validated by the caller). With an idempotency key that
 * was used before, `id` is the job that was made with it (ERR_CONFLICT if the spec differs). Keys
 * are only compared: the caller makes keys of different users different. `owner`: whose job it is
 * for ever; NULL: nobody's. Returns enum job_created, or negative. */
int store_job_create(struct store *s, const json_t *spec, int priority, const char *idempotency_key,
                     const char *owner, char id[STORE_ID], struct err *e);
/* Was a job made with this idempotency key? 1: yes; 0: no. */
int store_job_made(struct store *s, const char *idempotency_key, struct err *e);
/* The job as the API prints it: its hash and its live document in one. New reference, NULL with
 * ERR_NOT_FOUND. */
json_t *store_job_get(struct store *s, const char *id, struct err *e);
/* The same as compact JSON, malloc'd, and its version (or NULL) as store_job_version gives it. */
char *store_job_text(struct store *s, const char *id, char version[STORE_VERSION], size_t *len,
                     struct err *e);
/* Which jobs are listed. All fields but limit may be NULL; all are borrowed. */
struct job_query {
    const char *states; /* "running,queued": jobs in one of these states */
    const char *q;      /* a part of the name, or the beginning of the id */
    const char *tags;   /* "a,b": jobs with all of these tags */
    const char *owner;  /* jobs of the owner with exactly this name */
    const struct filter *where;
    const char
        *sort; /* "-created" (the newest first), "created", "priority" (the highest first), or a
                  path (job/filter.h), descending after a "-"; jobs without that value come last */
    const char *cursor; /* `next` of the page before */
    const char *fields; /* "name,state": only these keys and the id */
    int limit;          /* 1 to 500; 0: 50 */
};
/* {"jobs": [...], "next": cursor or null} as compact JSON, malloc'd. ERR_INVALID: a state, order or
 * cursor is not valid. */
char *store_job_page(struct store *s, const struct job_query *query, size_t *len, struct err *e);
/* The same, parsed. */
json_t *store_job_list(struct store *s, const char *states, const char *q, const char *sort,
                       const char *cursor, int limit, struct err *e);
/* The documents of these jobs (array of ids) in that order, each with its id and the keys that
 * `fields` names ("state,metrics"). Jobs that do not exist are left out. New reference. */
json_t *store_jobs_of(struct store *s, const json_t *ids, const char *fields, struct err *e);
/* Compare-and-set along job/state.c's arrows, sets started/finished, publishes the event.
 * ERR_CONFLICT if the state is not `from` (message names what it is). `error`: NULL, or
 * {"code","message","rank","node","attempt"}. */
int store_job_transition(struct store *s, const char *id, enum job_state from, enum job_state to,
                         const json_t *error, struct err *e);
int store_job_state(struct store *s, const char *id, enum job_state *out, struct err *e);
/* Carries out a user's request: "cancel", "pause", "resume". It picks the arrow for the state that
 * it finds. ERR_CONFLICT says why it is refused. */
int store_job_request(struct store *s, const char *id, const char *what, struct err *e);
/* The version of a job, "running-1-0-2": its state, attempt and priority, and how often a user
 * changed it. The live figures are no part of it. */
int store_job_version(struct store *s, const char *id, char version[STORE_VERSION], struct err *e);
enum job_changed { JOB_CHANGED, JOB_WAS_ANOTHER };
/* Both do nothing and return JOB_WAS_ANOTHER if `seen` (or NULL) is not the job's version any more.
 * store_job_delete: ERR_CONFLICT if the job has not ended. */
int store_job_delete(struct store *s, const char *id, const char *seen, struct err *e);
/* What a user changes in a job. NULL: it stays. */
struct job_change {
    const int *priority;
    const json_t *tags; /* an array, checked by the caller (job/tags.h) */
    const json_t *note; /* text; "" and null remove it */
};
/* Changes a job; ERR_CONFLICT if the priority is to change and the job has ended. */
int store_job_change(struct store *s, const char *id, const struct job_change *change,
                     const char *seen, struct err *e);
/* Set and read fields of the hash. A NULL value removes a field. store_job_field() returns a
 * malloc'd string or NULL. */
int store_job_set(struct store *s, const char *id, const char *field, const char *value,
                  struct err *e);
char *store_job_field(struct store *s, const char *id, const char *field, struct err *e);
int64_t store_job_increment(struct store *s, const char *id, const char *field, struct err *e);
/* Ids in one state, oldest first (queued: in queue order). Array of strings. */
json_t *store_job_ids(struct store *s, enum job_state state, struct err *e);

/* JSON documents of a job: "plan" "control" "live"; and "detail:NAME". NULL without error: there is
 * none. */
int store_doc_set(struct store *s, const char *id, const char *doc, const json_t *value,
                  struct err *e);
json_t *store_doc_get(struct store *s, const char *id, const char *doc, struct err *e);
/* The last 10,000 assignments are kept. store_assignments(): oldest first, a new reference.
 * store_assignment_amend() replaces the newest one, if there is one. */
int store_assignment_add(struct store *s, const char *id, const json_t *assignment, struct err *e);
int store_assignment_amend(struct store *s, const char *id, const json_t *assignment,
                           struct err *e);
json_t *store_assignments(struct store *s, const char *id, struct err *e);

/* What the scheduler reads in every turn. */
struct queued_job {
    char id[STORE_ID];
    int priority;
};
struct seen_job {
    char id[STORE_ID];
    int state; /* enum job_state; -1: no such job */
};
struct store_overview {
    struct queued_job *queued; /* in queue order */
    char (*cancelling)[STORE_ID];
    struct seen_job *asked; /* the jobs that were asked for, in their order */
    size_t n_queued, n_cancelling, n_asked;
};
/* Fills it in one round trip; the caller releases it. On failure it is empty. */
int store_overview_read(struct store *s, struct store_overview *out, const char *const *ids,
                        size_t n, struct err *e);
void store_overview_release(struct store_overview *o); /* empties it */

/* ---- owners of jobs (jobs/owners.c) ---------------------------------------------------------- */
/* The owners of these jobs (array of ids): an array of names, "" where a job has no owner or does
 * not exist. */
json_t *store_job_owners(struct store *s, const json_t *ids, struct err *e);
/* What each owner has: {NAME: {"queued", "running" (with jobs that begin or end), "paused",
 * "ended": numbers of jobs, "nodes": how many they hold, "disk_bytes": of their folders}}. It reads
 * every job. */
json_t *store_owners(struct store *s, struct err *e);
/* "disk_bytes" of one owner in such an answer; 0: the owner has no job. */
int64_t store_owner_disk_bytes(const json_t *owners, const char *name);

/* ---- what ranks report (jobs/report.c), and what the coordinator reads of it (jobs/feed.c) --- */
enum { STORE_PLACE = 32 }; /* bytes of a place in a stream, "MS-SEQ"; "0-0": its beginning */
/* Compares two places in time, with results like strcmp(); -2: one is malformed. */
int store_stream_compare(const char *a, const char *b);
bool store_stream_valid(const char *place);
/* From now on reports on this connection are sealed with this key (job/seal.h). Before they are
 * sealed with a key of zeros, which no attempt has. */
void store_seal_with(struct store *s, const struct sign_key *key);
/* A turn of a rank's pulse: rows, then a fact, then the heartbeat. All of it is borrowed but
 * `control`. */
struct store_report {
    const struct row *rows; /* [n_rows]; they become one entry */
    int n_rows;
    const json_t *fact; /* or NULL */
    const json_t *beat; /* heartbeat, or NULL */
    bool wants_control;
    json_t *control; /* out, the caller's: the control document; NULL: there is none, or it is the
                        same as at the last report on this connection */
};
int store_report(struct store *s, const char *id, int rank, struct store_report *report,
                 struct err *e);
/* Reports a fact alone, for a process without a pulse. */
int store_fact_add(struct store *s, const char *id, const json_t *fact, struct err *e);
struct store_tail {
    int rank;
    char *last; /* [STORE_PLACE]; moves on with what is taken */
};
/* An entry of rows. Anyone who may write to the stream can have written it; only the seal tells. */
struct store_rows {
    int rank, n;            /* the rank whose stream has it; how many rows */
    const struct row *rows; /* [n] */
    const void *packed;     /* the rows as they were sent, [bytes], which the seal covers */
    size_t bytes;
    const char *seal; /* hex; "": there is none */
};
/* Takes the rows of an entry. Negative: it is not taken, and reading ends with this code. */
typedef int store_rows_fn(void *ctx, const struct store_rows *entry, struct err *e);
struct store_rows_ask {
    const struct store_tail *tails; /* [n] the positions of n ranks, which the call moves */
    int n;
    int count;            /* the most entries of each rank */
    const char *facts_at; /* if a fact waits beyond this place, no rows are handed out */
    bool *facts;          /* and this is set; both may be NULL */
    store_rows_fn *fn;
    void *ctx;
};
/* Calls fn for the entries past the positions. Returns how many the busiest rank had. */
int store_rows_read(struct store *s, const char *id, const struct store_rows_ask *ask,
                    struct err *e);
/* Removes rows up to these positions from the store, since they are on disk. */
int store_rows_trim(struct store *s, const char *id, const struct store_tail *tails, int n,
                    struct err *e);
/* Removes facts up to this place, which were read and whose effects are kept, once there are many
 * (a program may log all the time). */
int store_facts_trim(struct store *s, const char *id, const char *upto, struct err *e);
/* An array; `last` is updated. Facts and heartbeats are what they claim to be. Each has "sealed",
 * the message as it was sent, whose seal tells whether the claim is true (sign_open). */
json_t *store_facts_read(struct store *s, const char *id, char last[STORE_PLACE], int count,
                         struct err *e);
/* {"0": {...}} of the ranks below `ranks`; each also has "at" in ms by Redis's clock, and "age" in
 * s; a document that is too large to be a heartbeat has nothing else. */
json_t *store_beats(struct store *s, const char *id, int ranks, struct err *e);
int store_beats_clear(struct store *s, const char *id, struct err *e);

/* ---- events (events.c): what browsers receive ----------------------------------------------- */
/* job may be "" (nodes). Types: "job" "live" "rows" "evaluation" "assignment" "staleness" "node"
 * "log" "deleted". */
int store_event(struct store *s, const char *job, const char *type, const json_t *body,
                struct err *e);
/* Documents and events of a job that are published together in one round trip: all of them or
 * none. */
enum { STORE_NEWS = 4 };
struct store_news {
    const char *doc;   /* "live" or "detail:NAME" that becomes body, or NULL */
    const char *event; /* type of the event that carries it, or NULL */
    const json_t *body;
};
int store_publish(struct store *s, const char *id, const struct store_news *news, int n,
                  struct err *e);
/* Events after `last` ("$": from now on; it is updated): an array for event_entry_read()
 * (job/documents/people/events.h). block_ms 0: does not wait. *gap: `last` is older than the oldest
 * one that is kept. */
json_t *store_events_read(struct store *s, char last[STORE_PLACE], int count, int block_ms,
                          bool *gap, struct err *e);
/* The newest event that there is; "0-0": none. */
int store_events_newest(struct store *s, char out[STORE_PLACE], struct err *e);

/* ---- nodes (nodes.c) ------------------------------------------------------------------------- */
/* node:
 * {"name","host","device","memory_bytes","threads","slowdown","labels":{},"versions":{},"quantum",
 * …}. Heartbeat with each call. */
int store_node_put(struct store *s, const json_t *node, struct err *e);
int store_nodes_put(struct store *s, const json_t *nodes,
                    struct err *e); /* of an array of them, in one round trip */
/* Reports the state of a node's GPU (common/machine/gpu.h). The node's document has it as "gpu" for
 * some seconds. */
int store_gpu_put(struct store *s, const char *node, const json_t *gpu, struct err *e);
/* Adds "state" (ready busy resting draining disabled lost), "job", "heartbeat_age_seconds",
 * "failures" (attempts in a row that failed through it) and "rest": null or {"seconds",
 * "reason"} */
json_t *store_node_get(struct store *s, const char *name, struct err *e);
json_t *store_nodes(struct store *s, struct err *e); /* array, by name */
bool store_node_silent(const json_t *node);          /* lost, whatever an operator asked for it */
int store_node_remove(struct store *s, const char *name, struct err *e);
int store_node_set(struct store *s, const char *name, const char *field, const char *value,
                   struct err *e); /* "drained", "disabled" */
/* claims.c: which job has a node, and what was used. */
enum claim {
    CLAIM_LOST, /* another job has it */
    CLAIM_OURS  /* it is claimed now, or was before for this job */
};
/* Claims a node for a job: enum claim, or negative. */
int store_node_claim(struct store *s, const char *name, const char *job, struct err *e);
int store_node_release(struct store *s, const char *name, const char *job, struct err *e);
/* How long jobs had nodes on the days first to last (UTC, counted from 1970): [{"day", "job",
 * "name", "owner" ("": none), "ms": sum over nodes}]. A claim that still holds is a separate entry
 * with its time until now, so a job may be listed twice. Jobs that were deleted are listed. */
json_t *store_accounting(struct store *s, int64_t first, int64_t last, struct err *e);
/* The clock by which claims are timed: clock_wall_ms(), unless a test sets another. */
void store_clock(struct store *s, int64_t (*wall_ms)(void));
/* node_rest.c: store_node_failed(): an attempt failed because of this node; *rest: the seconds for
 * which it gets no job, 0 after the first failure. store_node_well(): an attempt on it ended well;
 * its failures are forgotten. */
int store_node_failed(struct store *s, const char *name, const char *reason, double *rest,
                      struct err *e);
int store_node_well(struct store *s, const char *name, struct err *e);
/* What a node measured of a network (job/documents/coordinator/measured.h); nethash says which
 * network. Get: a new reference; NULL without error: there is none. */
int store_profile_put(struct store *s, const char *node, const char *nethash, const json_t *profile,
                      struct err *e);
json_t *store_profile_get(struct store *s, const char *node, const char *nethash, struct err *e);

/* ---- hosts (hosts.c): agents, and sealed messages (common/sign.h) to and from them ----------- */
/* Counts as a heartbeat. ERR_CONFLICT while another instance offers that name. */
int store_host_put(struct store *s, const struct host_beat *host, struct err *e);
json_t *store_host_get(struct store *s, const char *name,
                       struct err *e); /* adds "lost", "heartbeat_age_seconds" */
json_t *store_hosts(struct store *s, struct err *e);
int store_host_remove(struct store *s, const char *name, const char *instance,
                      struct err *e); /* if it is that instance's */
/* A box keeps its last 64 messages, until `seconds` after the newest. store_mail_take(): the oldest
 * message, which the caller frees; NULL without error: none. block_ms: how long it waits for
 * one. */
int store_mail_put(struct store *s, const char *box, const char *text, int seconds, struct err *e);
char *store_mail_take(struct store *s, const char *box, int block_ms, struct err *e);
int store_lease_set(struct store *s, const char *name, int seconds,
                    struct err *e); /* 0: gives it back */
enum launch_lease { LEASE_GONE, LEASE_HELD };
/* Returns enum launch_lease, or negative. */
int store_lease_there(struct store *s, const char *name, struct err *e);
/* Messages that were refused, by cause ("launch.forged"); counted for ever. */
int store_refused_add(struct store *s, const char *what, struct err *e);
json_t *store_refused(struct store *s, struct err *e);
/* Hosts that were refused in the last 30 s, for the API: the newest document of each host, by name,
 * with "age_seconds". At most 32 are kept. */
int store_refusal_put(struct store *s, const char *host, const json_t *refusal, struct err *e);
int store_refusal_remove(struct store *s, const char *host, struct err *e);
json_t *store_refusals(struct store *s, struct err *e);

/* ---- stats (stats.c): counters of the service for /metrics ----------------------------------- */
/* {"jobs": {"queued": n, …}, "memory_bytes", "connected_clients", …} */
json_t *store_stats(struct store *s, struct err *e);
/* Small secrets and links: key → value with a lifetime in seconds (0: for ever); take removes it.
 * The caller frees what get and take return; NULL without error: there is none. */
int store_secret_put(struct store *s, const char *key, const char *value, int seconds,
                     struct err *e);
char *store_secret_get(struct store *s, const char *key, struct err *e);
char *store_secret_take(struct store *s, const char *key, struct err *e);

#endif
