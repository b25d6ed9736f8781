/* The rules for ACL SETUSER (store/users.h) of a user of one host, or of the ranks of one host in
 * an attempt. They match the lines of deploy/container/users.acl for the roles `agent` and
 * `worker`, with this host's names in place of the patterns.
 *
 * First come keys and commands that go with any of them (functions read and write what they are
 * given), then, in parentheses, commands with keys of their own. */
#include "store/internal.h"

static const char common_commands[] =
    " resetchannels -@all +ping +auth +select +fcall +time +get +exists +hget +hmget +hgetall";

/* "(commands ~key)" */
static void allow(struct buf *out, const char *commands, const char *key)
{
    buf_addf(out, " (%s ~%s)", commands, key);
}

static int add_node(struct buf *keys, struct buf *commands, const char *name, struct err *e)
{
    char node[STORE_KEY], gpu[STORE_KEY], load[STORE_KEY];
    int rc = key_named(node, KEY_NODE, name, e);
    if (rc < 0 || (rc = key_named(gpu, KEY_GPU, name, e)) < 0 ||
        (rc = key_named(load, KEY_LOAD, name, e)) < 0) {
        return rc;
    }
    buf_addf(keys, " ~%s ~%s ~%s:*", node, gpu, load);
    allow(commands, "+hset +hdel +del", node);
    allow(commands, "+set +del", gpu);
    buf_addf(commands, " (+rpush +ltrim +expire ~%s:*)", load);
    return 0;
}

/* Adds its own box of requests, and the boxes that any host may use whose nonce it knows. */
static int add_mail(struct buf *keys, struct buf *commands, const char *host, struct err *e)
{
    char box[STORE_KEY], name[80], join[STORE_KEY], answer[STORE_KEY], welcome[STORE_KEY];
    snprintf(name, sizeof name, "host.%.60s", host);
    int rc = key_named(box, KEY_MAIL, name, e);
    if (rc < 0 || (rc = key_named(join, KEY_MAIL, "join", e)) < 0 ||
        (rc = key_named(answer, KEY_MAIL, "answer.", e)) < 0 ||
        (rc = key_named(welcome, KEY_MAIL, "welcome.", e)) < 0) {
        return rc;
    }
    buf_addf(keys, " ~%s ~%s ~%s* ~%s*", box, join, answer, welcome);
    buf_addf(commands, " (+lpop ~%s ~%s*) (+rpush +ltrim +expire ~%s ~%s*)", box, welcome, join,
             answer);
    return 0;
}

int key_rules_of_host(struct buf *out, const char *host, const char *const *nodes, int n,
                      struct err *e)
{
    char own[STORE_KEY], lease[STORE_KEY];
    struct buf commands;
    buf_init(&commands, 1 << 20);
    int rc = key_named(own, KEY_HOST, host, e);
    key_glob(lease, KEY_LEASE);
    buf_addf(out, " ~%s ~%s ~%s ~%s ~%s %%R~%s %%R~%s", key_text(KEY_EVENTS), key_text(KEY_NODES),
             key_text(KEY_HOSTS), key_text(KEY_REFUSED), own, lease, key_text(KEY_COORDINATOR));
    allow(&commands, "+xadd", key_text(KEY_EVENTS));
    allow(&commands, "+sadd +srem", key_text(KEY_NODES));
    allow(&commands, "+sadd +srem", key_text(KEY_HOSTS));
    allow(&commands, "+hincrby", key_text(KEY_REFUSED));
    allow(&commands, "+hset +hdel +del", own);
    if (rc >= 0) {
        rc = add_mail(out, &commands, host, e);
    }
    for (int i = 0; rc == 0 && i < n; i++) {
        rc = add_node(out, &commands, nodes[i], e);
    }
    buf_addf(out, "%s +smembers%s", common_commands, commands.data ? commands.data : "");
    buf_release(&commands);
    return rc;
}

int key_rules_of_ranks(struct buf *out, const char *job, const int *ranks, int n, struct err *e)
{
    static const enum store_key reads[] = {KEY_JOB, KEY_JOB_PLAN, KEY_JOB_CONTROL, KEY_JOB_LIVE,
                                           KEY_JOB_DETAIL};
    char key[STORE_KEY];
    struct buf commands;
    int rc = 0;
    buf_init(&commands, 1 << 20);
    for (size_t i = 0; rc == 0 && i < sizeof reads / sizeof *reads; i++) {
        rc = key_of_job(key, reads[i], job, e);
        buf_addf(out, " %%R~%s", key);
    }
    if (rc == 0 && (rc = key_of_job(key, KEY_JOB_BEATS, job, e)) == 0) {
        buf_addf(out, " ~%s", key);
        allow(&commands, "+hset", key);
    }
    if (rc == 0 && (rc = key_of_job(key, KEY_JOB_FACTS, job, e)) == 0) {
        buf_addf(out, " ~%s", key);
        allow(&commands, "+xadd", key);
    }
    for (int i = 0;
         rc == 0 && i < n && (rc = key_of_rank(key, KEY_JOB_ROWS, job, ranks[i], e)) == 0; i++) {
        buf_addf(out, " ~%s", key);
        allow(&commands, "+xadd", key);
    }
    buf_addf(out, "%s%s", common_commands, commands.data ? commands.data : "");
    buf_release(&commands);
    return rc;
}
