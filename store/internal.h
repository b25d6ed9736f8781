/* What the files of store/ share and no other file includes: the connection, commands with checked
 * replies, scripts (store/lua), keys. A redisReply's fields are valid only for its type: the
 * reply_… readers turn a wrong type into an error.
 */
#ifndef STORE_INTERNAL_H
#define STORE_INTERNAL_H

#include <hiredis/hiredis.h>
#include <stdatomic.h>

#include "common/text/buf.h"
#include "store/redis/keys.h"
#include "store/store.h"

enum {
    STORE_CALL_MS = 2000,       /* a call blocks at most this long */
    STORE_DOC_BYTES = 8 << 20,  /* of one JSON document */
    STORE_ROWS_BYTES = 1 << 20, /* of one entry of rows */
    STORE_RANKS = 4096,
    STORE_NODE_LOST_MS = 4000, /* without a heartbeat a node is lost (one comes every second) */
    STORE_IDEMPOTENCY_S = 86400,
    STORE_PROFILE_S = 180 * 86400,
    STORE_PRIORITY = 100000, /* priorities are within ± this */
    STORE_WHY = 512,         /* bytes of why a connection failed */
};
/* About how many entries are kept. They are texts, since they are arguments of scripts. */
#define STORE_EVENTS "20000"
#define STORE_ROWS_ENTRIES "20000" /* rows of a rank: half an hour at ten a second */
#define STORE_FACTS "10000"
#define STORE_FACTS_KEPT "256" /* facts that were read */
#define STORE_ASSIGNMENTS "10000"

/* What an address rediss://… says; the files are on this host. */
struct store_tls {
    bool on;
    char ca[200];             /* file of trusted authorities; "": the system's */
    char cert[200], key[200]; /* files of this side's own certificate and key, or both "" */
};

struct store {
    char url[512];
    char *password; /* or NULL; owned */
    char user[64];  /* of Redis; empty: the default one */
    bool is_unix;
    char address[256]; /* host or path */
    int port, db;
    struct store_tls tls;
    redisContext *redis;             /* commands; NULL while not connected */
    int64_t connection;              /* how many times it was opened */
    redisContext *events;            /* a second connection, for commands that block */
    int events_ms;                   /* the time limit of its socket */
    int appended;                    /* commands whose replies have not been taken */
    struct sign_key seal, seal_rows; /* keys that seal what is reported on this connection */
    char *control;                   /* the document that was returned last; owned */
    int64_t (*wall_ms)(void);        /* NULL: clock_wall_ms() */
    const struct store_fence *fence; /* of a coordinator's connection, or NULL; borrowed */
};

/* address.c: reads an address into url, user, is_unix, address, port and db. ERR_INVALID: it is no
 * address. */
int store_address(struct store *s, const char *url, struct err *e);
/* tls.c: connects to s->address by TLS; each call until then takes at most `limit`. NULL: `why`
 * says why it failed. */
redisContext *store_tls_connect(const struct store *s, struct timeval limit, char why[STORE_WHY]);

/* A Lua script: LUA_NAME of store/lua.h, which the build makes of store/lua/NAME.lua, behind the
 * functions that it uses. */
enum { STORE_FUNCTION = 48 }; /* bytes of a name */
struct script {
    const char *text;
    bool by_name; /* called as a function of Redis (functions.c), since not only coordinators do */
    char name[STORE_FUNCTION]; /* store_script_name() */
    atomic_bool named;
    struct script *fenced; /* the same behind LUA_FENCE, made at its first use and never freed */
};

/* Sends one command by its arguments (binary safe). On success the reply is never NULL and never an
 * error; the caller calls freeReplyObject(). */
redisReply *store_command(struct store *s, int argc, const char **argv, const size_t *lens,
                          struct err *e);
/* The same, but returns the reply as it came, which may be an error or NULL. store_check() turns it
 * into what store_command() returns. */
redisReply *store_raw(struct store *s, int argc, const char **argv, const size_t *lens,
                      struct err *e);
redisReply *store_check(struct store *s, redisReply *r, struct err *e);
/* See redisCommand. */
redisReply *store_commandf(struct store *s, struct err *e, const char *fmt, ...);
/* Sends several commands in one round trip: append them, then take as many replies. A failure frees
 * all replies. */
int store_append(struct store *s, struct err *e, const char *fmt, ...);
int store_append_argv(struct store *s, int argc, const char **argv, struct err *e);
int store_replies(struct store *s, redisReply **out, struct err *e);
/* A blocking command on the second connection; the time limit is block_ms longer than usual. */
redisReply *store_wait(struct store *s, int block_ms, int argc, const char **argv, struct err *e);
/* Runs a script: EVALSHA, and EVAL where the server does not know it; or a function by its name.
 * keys and args are NUL-terminated strings, except that lens (if not NULL) gives lengths of args.
 * Through a coordinator's connection it runs behind the fence, as a script. */
redisReply *store_script(struct store *s, struct script *script, int nkeys, const char **keys,
                         int nargs, const char **args, const size_t *lens, struct err *e);

/* The name under which the server knows it: the SHA-1 of its text, or a function's name. The first
 * thread that asks computes it. */
const char *store_script_name(struct script *script);

/* A command that changes something a coordinator owns; behind the fence where there is one. */
redisReply *store_change(struct store *s, int argc, const char **argv, struct err *e);

/* The scripts with by_name, each in the file that calls it. */
extern struct script report_script, fact_script, node_put_script, node_gpu_script,
    node_remove_script, host_put_script, host_remove_script, mail_put_script, node_load_script;
/* Loads one; 0 also where it is loaded already. */
int store_function_load(struct store *s, struct script *script, struct err *e);

/* The return value of a call without reply: the error's code, negative. */
static inline int store_failed(const struct err *e)
{
    return -(e && e->code ? (int)e->code : ERR_UNAVAILABLE);
}
/* Frees a reply that only confirms the command: 0, or store_failed() if there is none.
 */
int store_done(redisReply *r, const struct err *e);

enum reply_text { REPLY_NIL, REPLY_TEXT };
/* Readers: the value, or an error that says what was expected. */
int reply_int(const redisReply *r, int64_t *out, struct err *e);
int reply_text(const redisReply *r, const char **out, size_t *len,
               struct err *e); /* enum reply_text */
int reply_array(const redisReply *r, size_t at_least,
                struct err *e); /* 0 for nil or empty, else count */
int reply_record(const redisReply *r, size_t at_least, struct err *e); /* count, never 0 */
int reply_clock(const redisReply *r, double *ms,
                struct err *e); /* the time of Redis's own clock that a script returned */
bool reply_is_status(const redisReply *r, const char *text);
json_t *reply_json(const redisReply *r, struct err *e); /* NULL without error for nil */
/* Entries of streams, [[id, [field, value, …]], …]; fields is NULL for one that was deleted
 * meanwhile. */
struct stream_entry {
    const char *id;
    const redisReply *fields;
};
int reply_entry(const redisReply *list, int i, struct stream_entry *out, struct err *e);
/* An array of what `make` returns for each of n entries (a new reference; NULL: the entry is left
 * out). `last` becomes the last entry's id. NULL after an error. */
typedef json_t *reply_entry_fn(const struct stream_entry *at);
json_t *reply_entries(const redisReply *list, int n, reply_entry_fn *make, char last[STORE_PLACE],
                      struct err *e);
/* Reads one of the streams in XREAD's answer. Returns how many entries *list has. */
int reply_stream(const redisReply *r, const char **key, const redisReply **list, struct err *e);
int reply_only_stream(const redisReply *r, const redisReply **list,
                      struct err *e); /* XREAD of one stream; 0: nothing new */
/* The value of a field in a flat array of pairs, or NULL. */
const char *reply_field(const redisReply *pairs, const char *name, size_t *len);

/* Compact JSON of at most STORE_DOC_BYTES; the caller frees. NULL with an error. */
char *store_dump(const json_t *j, const char *what, struct err *e);
int store_no_job(const char *id, struct err *e);
void store_hex_sha256(const void *bytes, size_t n, char out[65]);

/* jobs/change.c: used by the creation of jobs and sweeps. */
int store_random_id(char id[STORE_ID], struct err *e);
/* The digest of a document, which does not depend on the order of keys. */
int store_digest(const json_t *document, char out[65], struct err *e);
void store_idempotency_key(char out[STORE_KEY], const char *given);
/* Reads {number, id} as job_create.lua and sweep_create.lua answer it. Returns enum job_created. */
int store_created(const redisReply *r, const char *what, char id[STORE_ID], struct err *e);
/* mend.c: for a reader of a stream that got -ERR_DATA for an id. 0: all ids are well formed;
 * -ERR_UNAVAILABLE: entries with malformed ids were removed, so read again. */
int store_mend(struct store *s, const char *key, struct err *e);
/* documents.c: takes the reply of a script that answers 1, or 0 where the job is not there; frees
 * it. */
int store_did(const char *id, redisReply *r, struct err *e);
/* jobs/view.c: where a key of a job's document is kept. */
enum jobview_kind {
    JOBVIEW_TEXT,   /* a field of its hash: text, or null */
    JOBVIEW_NUMBER, /* a whole number */
    JOBVIEW_JSON,   /* a JSON document, or null */
    JOBVIEW_LIST,   /* an array */
    JOBVIEW_HIDDEN, /* a field that is not shown */
    JOBVIEW_LIVE    /* a part of the live document */
};
enum jobview_kind jobview_kind(const char *name);
/* Appends the documents of n jobs in the order of their ids, separated by commas. Jobs that were
 * deleted meanwhile are left out. `words`: the wanted keys besides the id, "a,b"; NULL: all.
 * Returns how many it appended, or negative. */
int jobview_append(struct store *s, int n, const char **ids, const char *words, struct buf *out,
                   struct err *e);

#endif
