/* Who may work: see lease.h.
 *
 * Time is measured by a clock that goes on while the machine sleeps, and a renewal counts from
 * before it was sent. So this side never believes in its lease for longer than the store does.
 */
#include "coordinator/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "common/sign.h"

enum { LOCK_BYTES = 100 };
static const double renew_seconds = 1, retry_seconds = 0.25, try_seconds = 0.25;
/* After an outage of the store its coordinator gets this long to renew before a standby may take a
 * lease that has run out. */
static const double settle_seconds = 6;

struct lease {
    char data_dir[PATH_MAX], lock_name[LOCK_BYTES], instance[STORE_INSTANCE];
    char store_name[STORE_INSTANCE];
    bool standby, locked, told_elsewhere;
    int lock; /* descriptor of DIR/serve.lock */
    json_t *who;
    void (*on_lost)(void);
    struct store *store; /* the thread's, once it runs */
    struct store_fence fence;
    _Atomic double renewed_at; /* boot_now() */
    atomic_bool lost;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards stopping */
    pthread_cond_t wake;
    bool stopping, started;
};

static double boot_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* The lock's name for others: this file, under this boot of the kernel. Containers that share a
 * folder agree on it, hosts never do. */
static void name_lock(struct lease *l)
{
    struct stat st = {0};
    char boot[PROC_BOOT];
    proc_boot(boot);
    fstat(l->lock, &st);
    snprintf(l->lock_name, sizeof l->lock_name, "%s %" PRIuMAX ":%" PRIuMAX, boot,
             (uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
}

static void try_lock(struct lease *l)
{
    l->locked = l->locked || flock(l->lock, LOCK_EX | LOCK_NB) == 0;
}

/* Opens the folder's lock. Two coordinators in one data folder would both run its jobs, and the
 * first to end would stop the store. */
static int open_lock(struct lease *l, struct err *e)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/serve.lock", l->data_dir);
    l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (l->lock < 0) {
        return err_errno(e, ERR_IO, "cannot open '%s'", path);
    }
    name_lock(l);
    try_lock(l);
    if (!l->locked && !l->standby) {
        err_set(e, ERR_CONFLICT, "another evenstep serve works in '%s'", l->data_dir);
        return err_hint(e, "end it first, or give another --data-dir");
    }
    return 0;
}

static int describe(struct lease *l, const struct lease_config *c, struct err *e)
{
    char since[32];
    struct sign_key nonce;
    char hex[SIGN_HEX];
    int rc = sign_random(&nonce, e);
    if (rc < 0) {
        return rc;
    }
    sign_hex(&nonce, hex);
    snprintf(l->instance, sizeof l->instance, "%.32s", hex);
    l->who = json_pack("{s:s, s:i, s:s, s:s, s:s}", "host", c->host, "pid", (int)getpid(),
                       "address", c->address, "since", clock_format(since, clock_wall_ms()),
                       "data_dir", l->data_dir);
    return l->who ? 0 : err_set(e, ERR_MEMORY, "cannot take the lease: memory ran out");
}

struct lease *lease_open(const struct lease_config *c, struct err *e)
{
    struct lease *l = calloc(1, sizeof *l);
    if (!l) {
        err_set(e, ERR_MEMORY, "cannot take the lease: memory ran out");
        return NULL;
    }
    snprintf(l->data_dir, sizeof l->data_dir, "%s", c->data_dir);
    l->standby = c->standby;
    l->on_lost = c->lost;
    l->lock = -1;
    pthread_mutex_init(&l->mutex, NULL);
    clock_cond_init(&l->wake);
    if (open_lock(l, e) < 0 || describe(l, c, e) < 0) {
        lease_close(l);
        return NULL;
    }
    return l;
}

/* ---- taking it ------------------------------------------------------------------------------- */

static const char *said(const struct store_leader *leader, const char *key)
{
    const char *text = json_string_value(json_object_get(leader->who, key));
    return text ? text : "";
}

static int pid_of(const struct store_leader *leader)
{
    return (int)json_integer_value(json_object_get(leader->who, "pid"));
}

/* Has the leader ended? Yes if we have its folder's lock, since only a process that has ended gives
 * the lock up. */
static bool has_ended(const struct lease *l, const struct store_leader *leader)
{
    return l->locked && strcmp(said(leader, "lock"), l->lock_name) == 0;
}

static int take(struct lease *l, const char *dead, bool patient, struct store_leader *leader,
                struct err *e)
{
    /* only a holder names the lock: a coordinator may lead while a stopped one still holds it, and
     * must not be taken for dead when that one ends */
    json_object_set_new(l->who, "lock", json_string(l->locked ? l->lock_name : ""));
    const struct store_candidate c = {l->instance, l->who, dead, patient, l->store_name};
    double before = boot_now();
    int rc = store_leader_take(l->store, &c, &l->fence, leader, e);
    if (rc == LEADER_SELF) {
        atomic_store(&l->renewed_at, before);
    }
    return rc;
}

/* Does the holder of the folder's lock work on another store? The lock's file names its store. A
 * coordinator that led here without the lock would be a second one in the folder, not a
 * successor. */
static bool works_elsewhere(struct lease *l)
{
    char other[STORE_INSTANCE] = "";
    ssize_t n = l->locked ? 0 : pread(l->lock, other, sizeof other - 1, 0);
    bool elsewhere = n > 0 && strcmp(other, l->store_name) != 0;
    if (elsewhere && !l->told_elsewhere) {
        log_error("lease", "the coordinator of this data folder works on another store; waits",
                  "data_dir=%s", l->data_dir);
    }
    l->told_elsewhere = elsewhere;
    return elsewhere;
}

/* Reads the store's name. A store gets its name from the first coordinator that takes its lease. */
static int learn_store(struct lease *l, struct err *e)
{
    int rc = store_leader_store(l->store, l->store_name, e);
    if (rc >= 0 && !l->store_name[0]) {
        memcpy(l->store_name, l->instance, sizeof l->store_name);
    }
    return rc;
}

static void note_store(const struct lease *l)
{
    size_t n = strlen(l->store_name);
    if (l->locked &&
        (pwrite(l->lock, l->store_name, n, 0) != (ssize_t)n || ftruncate(l->lock, (off_t)n) != 0)) {
        log_warn("lease", "cannot write into the lock of the data folder", "data_dir=%s",
                 l->data_dir);
    }
}

/* What a coordinator that waits has seen. */
struct wait {
    double reached_at; /* since when the store has answered without a failure; 0: it has not */
    double last_age;   /* age of the leader's last renewal; negative: none seen yet */
    char told[STORE_INSTANCE];
};

static void say_waiting(struct lease *l, struct wait *w, const struct store_leader *leader)
{
    if (strcmp(w->told, leader->instance) != 0) {
        snprintf(w->told, sizeof w->told, "%s", leader->instance);
        log_info("lease", l->standby ? "standby" : "waits for another coordinator's lease",
                 "coordinator_host=%s pid=%d since=%s address=%s", said(leader, "host"),
                 pid_of(leader), said(leader, "since"), said(leader, "address"));
    }
}

static int refuse(const struct store_leader *leader, struct err *e)
{
    err_set(e, ERR_CONFLICT,
            "another coordinator works on this store: process %d on host '%s', since %s, at %s, "
            "with the data folder '%s'",
            pid_of(leader), said(leader, "host"), said(leader, "since"), said(leader, "address"),
            said(leader, "data_dir"));
    return err_hint(e, "end it, or start this one with --standby to take over when it ends");
}

/* Tries once to take the lease. LEADER_SELF: it is ours; LEADER_OTHER: try again; negative: give
 * up. */
static int try_once(struct lease *l, struct wait *w, struct err *e)
{
    struct store_leader leader = {.instance = ""};
    bool patient =
        l->standby && (w->reached_at == 0 || boot_now() - w->reached_at < settle_seconds);
    try_lock(l);
    int rc = learn_store(l, e);
    if (rc >= 0) {
        if (works_elsewhere(l)) {
            return LEADER_OTHER;
        }
        rc = take(l, NULL, patient, &leader, e);
    }
    if (rc == LEADER_OTHER && has_ended(l, &leader)) {
        char dead[STORE_INSTANCE];
        snprintf(dead, sizeof dead, "%s", leader.instance);
        store_leader_release(&leader);
        rc = take(l, dead, patient, &leader, e);
    }
    if (rc < 0) {
        w->reached_at = 0;
        return l->standby ? LEADER_OTHER : rc;
    }
    w->reached_at = w->reached_at == 0 ? boot_now() : w->reached_at;
    if (rc == LEADER_OTHER) {
        bool renewed = w->last_age >= 0 && leader.age < w->last_age;
        say_waiting(l, w, &leader);
        rc = renewed && !l->standby ? refuse(&leader, e) : LEADER_OTHER;
        w->last_age = leader.age;
    }
    store_leader_release(&leader);
    return rc;
}

static void *renew(void *arg);

int lease_take(struct lease *l, const char *store_url, const char *password,
               const volatile sig_atomic_t *stop, struct err *e)
{
    struct wait w = {.last_age = -1};
    int rc = 0;
    if (!(l->store = store_open(store_url, password, e))) {
        return -(int)e->code;
    }
    while ((rc = try_once(l, &w, e)) == LEADER_OTHER) {
        if (*stop) {
            return err_set(e, ERR_CANCELLED, "it was told to stop while it waited");
        }
        clock_sleep(try_seconds);
    }
    if (rc < 0) {
        return rc;
    }
    note_store(l);
    if (!l->locked) {
        log_warn("lease", "the lock of the data folder is still held; its holder's lease ran out",
                 "data_dir=%s", l->data_dir);
    }
    err_clear(e);
    if (pthread_create(&l->thread, NULL, renew, l) != 0) {
        return err_set(e, ERR_MEMORY, "cannot start the thread that renews the lease");
    }
    l->started = true;
    return 0;
}

/* ---- keeping it ------------------------------------------------------------------------------ */

static void lose(struct lease *l, const struct store_leader *leader)
{
    atomic_store(&l->lost, true);
    log_error("lease", "another coordinator has taken over; this one stops",
              "coordinator_host=%s pid=%d since=%s address=%s", said(leader, "host"),
              pid_of(leader), said(leader, "since"), said(leader, "address"));
    if (l->on_lost) {
        l->on_lost();
    }
}

/* Renews the lease once. Returns the seconds until the next renewal. */
static double renew_once(struct lease *l)
{
    struct store_leader leader = {.instance = ""};
    struct err why = {0};
    try_lock(l); /* its holder may have stood still when its lease ran out, and have ended since */
    int rc = take(l, NULL, false, &leader, &why);
    if (rc == LEADER_OTHER) {
        lose(l, &leader);
    }
    store_leader_release(&leader);
    return rc < 0 ? retry_seconds : renew_seconds;
}

static void *renew(void *arg)
{
    struct lease *l = arg;
    double pause = renew_seconds;
    pthread_mutex_lock(&l->mutex);
    while (!l->stopping && !atomic_load(&l->lost)) {
        struct timespec until = clock_timespec(clock_now() + pause);
        pthread_cond_timedwait(&l->wake, &l->mutex, &until);
        if (!l->stopping) {
            pthread_mutex_unlock(&l->mutex);
            pause = renew_once(l);
            pthread_mutex_lock(&l->mutex);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

const struct store_fence *lease_fence(const struct lease *l)
{
    return &l->fence;
}

bool lease_lost(const struct lease *l)
{
    return l && atomic_load(&l->lost);
}

bool lease_held(const struct lease *l)
{
    return !l || (!atomic_load(&l->lost) &&
                  boot_now() - atomic_load(&l->renewed_at) < STORE_LEADER_MS / 1000.0);
}

void lease_close(struct lease *l)
{
    if (!l) {
        return;
    }
    if (l->started) {
        pthread_mutex_lock(&l->mutex);
        l->stopping = true;
        pthread_cond_signal(&l->wake);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    if (l->started && !atomic_load(&l->lost)) {
        store_leader_give(l->store, l->instance, NULL);
    }
    store_close(l->store);
    json_decref(l->who);
    if (l->lock >= 0) {
        close(l->lock);
    }
    pthread_cond_destroy(&l->wake);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}
