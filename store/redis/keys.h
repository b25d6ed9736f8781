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

/* A key without names in it, as it is: KEY_QUEUE. */
const char *key_text(enum store_key which);
/* What comes before the first name: "es:node:". Inline in scripts, the name follows. */
void key_prefix(char out[STORE_KEY], enum store_key which);
/* Prefix and name. ERR_INVALID for what cannot be a name. */
int key_named(char key[STORE_KEY], enum store_key which, const char *name, struct err *e);
/* Of a group KEYS_JOB or KEYS_RANK. ERR_NOT_FOUND for what cannot be an id, ERR_INVALID for a rank
 * that cannot be. */
int key_of_job(char key[STORE_KEY], enum store_key which, const char *id, struct err *e);
int key_of_rank(char key[STORE_KEY], enum store_key which, const char *id, int rank, struct err *e);

/* ---- users of Redis, by role (docs/deployment.md) -------------------------------------------- */

/* The keeper's user is that of all processes of mpirun on the coordinator's host: ranks, and the
 * launch agent, which sends requests. */
enum key_user { KEY_WORKER, KEY_AGENT, KEY_KEEPER };
/* The pattern as Redis matches it: "es:node:*". */
void key_glob(char out[STORE_KEY], enum store_key which);
/* What a line of users.acl says of keys: "%R~es:job:* ~es:job:*:beats". One that another covers is
 * left out. */
void key_rights(struct buf *out, enum key_user user);
/* All that ACL SETUSER is told of a user of one host or of one host's ranks (store/users.h): words
 * with a blank before each. ERR_INVALID for what cannot be a name. */
int key_rules_of_host(struct buf *out, const char *host, const char *const *nodes, int n,
                      struct err *e);
int key_rules_of_ranks(struct buf *out, const char *job, const int *ranks, int n, struct err *e);

#endif
