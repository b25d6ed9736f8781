/* What Redis answers: a server that is none of ours accepts each connection, sends the next piece
 * of the input (pieces end at a byte 0xff) and closes its side. Then every call of the store that
 * reads is made, as coordinator, HTTP server, agent and worker make it: whatever came back, it is
 * data or an error. The first byte picks where to begin, so that each call meets each piece. */
#include "tests/fuzz/fuzz.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "job/row.h"
#include "store/store.h"

static int listener;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const uint8_t *answers;
static size_t left;

static void *serve(void *arg)
{
    int before = -1;
    (void)arg;
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        pthread_mutex_lock(&lock);
        const uint8_t *end = left ? memchr(answers, 0xff, left) : NULL;
        size_t n = end ? (size_t)(end - answers) : left, sent = 0;
        while (sent < n) {
            ssize_t more = send(fd, answers + sent, n - sent, MSG_NOSIGNAL);
            if (more <= 0) {
                break;
            }
            sent += (size_t)more;
        }
        answers += n + (end != NULL);
        left -= n + (end != NULL);
        pthread_mutex_unlock(&lock);
        shutdown(fd, SHUT_WR);
        if (before >= 0) { /* not sooner: what was not read yet would be lost with it */
            close(before);
        }
        before = fd;
    }
}

static struct store *the_store(void)
{
    static struct store *s;
    struct err e = {0};
    if (!s) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        char url[256];
        pthread_t thread;
        snprintf(at.sun_path, sizeof at.sun_path, "%s/redis.sock", fuzz_folder());
        snprintf(url, sizeof url, "unix:%s", at.sun_path);
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        BUG_ON(bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 64));
        BUG_ON(pthread_create(&thread, NULL, serve, NULL));
        BUG_ON(!(s = store_open(url, NULL, &e)));
    }
    return s;
}

/* A document, or an error that says why not. */
#define MUST(call)                                    \
    do {                                              \
        struct err why = {0}, *e = &why;              \
        json_t *j = call;                             \
        BUG_ON(!j && (!why.code || !why.message[0])); \
        json_decref(j);                               \
    } while (0)
/* There may be none. */
#define MAY(call)                                  \
    do {                                           \
        struct err why = {0}, *e = &why;           \
        json_t *j = call;                          \
        BUG_ON(!j && why.code && !why.message[0]); \
        json_decref(j);                            \
    } while (0)
#define RETURNS(call)                                     \
    do {                                                  \
        struct err why = {0}, *e = &why;                  \
        int64_t rc = call;                                \
        BUG_ON(rc < 0 && (!why.code || !why.message[0])); \
    } while (0)

static int on_rows(void *ctx, const struct store_rows *entry, struct err *e)
{
    (void)ctx;
    (void)e;
    BUG_ON(entry->n < 1);
    fuzz_read(entry->rows, (size_t)entry->n * sizeof *entry->rows);
    fuzz_read(entry->packed, entry->bytes);
    fuzz_read(entry->seal, strlen(entry->seal));
    return 0;
}

static const char job[] = "0123456789abcdef";

static void read_job(struct store *s)
{
    enum job_state state;
    MUST(store_job_get(s, job, e));
    RETURNS(store_job_state(s, job, &state, e));
    free(store_job_field(s, job, "spec", NULL));
    RETURNS(store_job_transition(s, job, JOB_QUEUED, JOB_LAUNCHING, NULL, e));
    RETURNS(store_job_request(s, job, "cancel", e));
    RETURNS(store_job_delete(s, job, NULL, e));
}

static void read_lists(struct store *s)
{
    struct store_overview seen;
    RETURNS(store_overview_read(s, &seen, &(const char *){job}, 1, e));
    store_overview_release(&seen);
    MUST(store_job_list(s, NULL, NULL, "created", NULL, 50, e));
    MUST(store_job_list(s, "running", "x", "-priority", NULL, 50, e));
    MUST(store_job_ids(s, JOB_QUEUED, e));
}

static void read_feed(struct store *s)
{
    char last[STORE_PLACE] = "0-0", other[STORE_PLACE] = "0-0", facts_at[STORE_PLACE] = "0-0";
    bool gap;
    struct store_tail tails[2] = {{0, last}, {1, other}};
    bool facts = false;
    const struct store_rows_ask ask = {tails, 2, 100, facts_at, &facts, on_rows, NULL};
    RETURNS(store_rows_read(s, job, &ask, e));
    MUST(store_facts_read(s, job, last, 100, e));
    MUST(store_events_read(s, last, 100, 0, &gap, e));
    MUST(store_beats(s, job, 8, e));
    BUG_ON(strlen(last) > 31);
}

static void read_docs(struct store *s)
{
    MAY(store_doc_get(s, job, "live", e));
    MUST(store_assignments(s, job, e));
    MAY(store_profile_get(s, "node", "0123456789abcdef", e));
    MUST(store_stats(s, e));
}

static void read_nodes(struct store *s)
{
    MUST(store_nodes(s, e));
    MUST(store_node_get(s, "node", e));
    RETURNS(store_node_claim(s, "node", job, e));
}

static void read_hosts(struct store *s)
{
    MUST(store_hosts(s, e));
    MUST(store_host_get(s, "host", e));
    free(store_mail_take(s, "box", 0, NULL));
    free(store_mail_take(s, "box", 1, NULL));
    RETURNS(store_lease_there(s, "lease", e));
    MUST(store_refused(s, e));
    MUST(store_refusals(s, e));
    free(store_secret_take(s, "session", NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const readers[])(struct store *) = {read_job,  read_lists, read_feed,
                                                      read_docs, read_nodes, read_hosts};
    struct store *s = the_store();
    if (size < 1) {
        return 0;
    }
    pthread_mutex_lock(&lock);
    answers = data + 1;
    left = size - 1;
    pthread_mutex_unlock(&lock);
    readers[data[0] % (sizeof readers / sizeof *readers)](s);
    pthread_mutex_lock(&lock); /* the bytes are the fuzzer's */
    left = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}
