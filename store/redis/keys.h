/* Keys of the store, by the table in store/redis/keys.def: enum store_key has one for each line,
 * and no file but keys.c spells a key. For store/ alone, and for the program that prints the tables
 * of docs/store-schema.md.
 */
#ifndef STORE_REDIS_KEYS_H
#define STORE_REDIS_KEYS_H

#include "common/text/buf.h"
#include "common/err.h"

enum { STORE_KEY = 256 }; /* bytes of a key */

enum store_key { /* KEY_JOBS, KEY_QUEUE, … */
#define KEY(id, group, pattern, type, worker, agent, what, writers, readers, lives) KEY_##id,
#include "store/redis/keys.def"
                 KEY_COUNT
};

enum key_group {
    KEYS_JOB,
    KEYS_RANK,
    KEYS_JOBS,
    KEYS_EVENTS,
    KEYS_NODES,
    KEYS_HOSTS,
    KEYS_SECRETS,
    KEYS_WEBHOOKS,
    KEYS_SWEEPS
};
enum key_may { KEY_NONE, KEY_READ, KEY_WRITE };

struct key_info {
    const char *pattern, *type, *what, *writers, *readers, *lives;
    enum key_group group;
    enum key_may worker, agent;
};
extern const struct key_info store_keys[KEY_COUNT];

/* The text of a key without names: KEY_QUEUE. */
const char *key_text(enum store_key which);
/* The text before the first name: "es:node:". Scripts append the name. */
void key_prefix(char out[STORE_KEY], enum store_key which);
/* A key with its name filled in. ERR_INVALID: it is no valid name. */
int key_named(char key[STORE_KEY], enum store_key which, const char *name, struct err *e);
/* A key of a job or of its rank (groups KEYS_JOB and KEYS_RANK). ERR_NOT_FOUND: it is no valid id;
 * ERR_INVALID: it is no valid rank. */
int key_of_job(char key[STORE_KEY], enum store_key which, const char *id, struct err *e);
int key_of_rank(char key[STORE_KEY], enum store_key which, const char *id, int rank, struct err *e);

/* ---- users of Redis, by role (docs/deployment.md) -------------------------------------------- */

/* All processes of mpirun on the coordinator's host have the keeper's user: ranks, and the launch
 * agent, which sends requests. */
enum key_user { KEY_WORKER, KEY_AGENT, KEY_KEEPER };
/* The pattern as Redis matches it: "es:node:*". */
void key_glob(char out[STORE_KEY], enum store_key which);
/* The keys in a line of users.acl: "%R~es:job:* ~es:job:*:beats". A key that another one covers is
 * left out. */
void key_rights(struct buf *out, enum key_user user);
/* The words for ACL SETUSER of the user of one host or of its ranks (store/users.h), each after a
 * blank. ERR_INVALID: it is no valid name. */
int key_rules_of_host(struct buf *out, const char *host, const char *const *nodes, int n,
                      struct err *e);
int key_rules_of_ranks(struct buf *out, const char *job, const int *ranks, int n, struct err *e);

#endif
