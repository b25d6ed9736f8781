/* The program cache (see model.h). Only the main thread takes and drops programs; the preparing
 * thread adds them. A program that the main thread holds stays valid: an addition evicts the least
 * recently used program, and never one of the two used last. If the device's memory is short, the
 * program that was taken last is evicted only for another one that is taken.
 */
#include "worker/model/model.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"

static const double mib = 1024.0 * 1024.0;
static const char smaller[] = "a smaller global batch, or more workers";

/* The largest minibatch, up to the global batch, whose program fits. */
static int largest_fitting(const struct model *m, size_t memory)
{
    const struct network *net = &m->spec->network;
    int low = 0, high = m->spec->batching.global_batch;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (dev_memory_needed(net, &m->spec->optimizer, middle) <= memory) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

static int check_memory(const struct model *m, int batch, struct err *e)
{
    if (batch <= m->largest) {
        return 0;
    }
    double needed = (double)dev_memory_needed(&m->spec->network, &m->spec->optimizer, batch);
    double there = (double)m->dev->ops->memory_bytes(m->dev);
    if (needed > there) {
        err_set(e, ERR_MEMORY,
                "a minibatch of %d needs %.0f MiB, the device has %.0f MiB free: at most %d fits",
                batch, needed / mib, there / mib, m->largest);
    } else {
        err_set(e, ERR_MEMORY,
                "a minibatch of %d does not fit the device's memory: at most %d may (%.300s)",
                batch, m->largest, m->failure.message);
    }
    err_hint(e, "%s", smaller);
    return -ERR_MEMORY;
}

static int find(const struct model *m, int batch)
{
    for (int i = 0; i < MODEL_PROGRAMS; i++) {
        if (m->cache[i].program && m->cache[i].batch == batch) {
            return i;
        }
    }
    return -1;
}

/* The least recently used program other than this one (NULL: of all); -1: there is none. */
static int find_oldest(const struct model *m, const struct dev_program *but)
{
    int oldest = -1;
    for (int i = 0; i < MODEL_PROGRAMS; i++) {
        bool counts = m->cache[i].program && m->cache[i].program != but;
        oldest = counts && (oldest < 0 || m->cache[i].used < m->cache[oldest].used) ? i : oldest;
    }
    return oldest;
}

/* A cache entry for a new program, under the lock: a free one, or the least recently used one,
 * whose program the caller frees. */
static int make_place(struct model *m, struct dev_program **old)
{
    for (int i = 0; i < MODEL_PROGRAMS; i++) {
        if (!m->cache[i].program) {
            *old = NULL;
            return i;
        }
    }
    int place = find_oldest(m, NULL);
    *old = m->cache[place].program;
    m->cache[place].program = NULL;
    return place;
}

/* Under the lock. Frees the least recently used program; the held one only if it is about to be
 * replaced. False: there is none to free. */
static bool make_room(struct model *m, bool given_up)
{
    int oldest = find_oldest(m, m->held);
    oldest = oldest < 0 && given_up ? find_oldest(m, NULL) : oldest;
    if (oldest < 0) {
        return false;
    }
    m->held = m->cache[oldest].program == m->held ? NULL : m->held;
    m->dev->ops->program_free(m->cache[oldest].program);
    m->cache[oldest].program = NULL;
    return true;
}

/* Under the lock. taken: the program replaces the held one; else it is for later, and the lock is
 * released while a thread builds it. Programs for later must not block one that is needed now. */
static struct dev_program *build(struct model *m, int batch, bool taken, struct err *e)
{
    struct dev_program *p = NULL;
    bool again = check_memory(m, batch, e) == 0, beside = m->threaded && !taken;
    while (again) {
        if (beside) {
            pthread_mutex_unlock(&m->lock);
        }
        p = m->dev->ops->program_new(&m->replica, batch, m->spec->bucket_bytes, e);
        if (beside) {
            pthread_mutex_lock(&m->lock);
        }
        again = !p && e->code == ERR_MEMORY && make_room(m, taken);
    }
    return p;
}

/* Under the lock. The estimate was too high: the limit lies between the sizes that ran and those
 * that did not. */
static void refuse(struct model *m, int batch, const struct err *e)
{
    int runs = 1;
    m->refused = batch;
    m->failure = *e;
    for (int i = 0; i < MODEL_PROGRAMS; i++) {
        bool below = m->cache[i].program && m->cache[i].batch < batch;
        runs = below && m->cache[i].batch > runs ? m->cache[i].batch : runs;
    }
    if (e->code == ERR_MEMORY && batch > 1) {
        int between = runs + (batch - 1 - runs) / 2;
        m->largest = between < m->largest ? between : m->largest;
    }
    log_warn("model", "cannot prepare a program", "batch=%d why=\"%s\"", batch, e->message);
}

static void keep(struct model *m, int batch, struct dev_program *p)
{
    struct dev_program *old;
    int place = make_place(m, &old);
    m->cache[place].program = p;
    m->cache[place].batch = batch;
    m->cache[place].used = ++m->uses;
    if (old) {
        m->dev->ops->program_free(old);
    }
}

static void *model_main(void *arg)
{
    struct model *m = arg;
    pthread_setname_np(pthread_self(), "programs");
    pthread_mutex_lock(&m->lock);
    while (!m->stopping) {
        if (m->wanted == 0) {
            pthread_cond_wait(&m->changed, &m->lock);
            continue;
        }
        int batch = m->building = m->wanted;
        m->wanted = 0;
        struct err e = {0};
        struct dev_program *p = build(m, batch, false, &e);
        if (p) {
            keep(m, batch, p);
        } else {
            refuse(m, batch, &e);
        }
        m->building = 0;
        pthread_cond_broadcast(&m->changed);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

int model_init(struct model *m, struct device *dev, const struct jobspec *spec, bool threaded,
               struct err *e)
{
    memset(m, 0, sizeof(*m));
    m->dev = dev;
    m->spec = spec;
    m->largest = largest_fitting(m, dev->ops->memory_bytes(dev));
    int rc = m->largest > 0
                 ? dev->ops->replica_init(dev, &m->replica, &spec->network, &spec->optimizer, e)
                 : check_memory(m, 1, e);
    if (rc < 0) {
        return err_prefix(e, "cannot build the model");
    }
    m->replica_there = true;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    if (threaded && pthread_create(&m->thread, NULL, model_main, m) != 0) {
        rc = err_set(e, ERR_MEMORY, "cannot start the thread that prepares programs");
        model_release(m);
        return rc;
    }
    m->threaded = threaded;
    return 0;
}

void model_release(struct model *m)
{
    if (!m->replica_there) {
        return;
    }
    if (m->threaded) {
        pthread_mutex_lock(&m->lock);
        m->stopping = true;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
        pthread_join(m->thread, NULL);
    }
    for (int i = 0; i < MODEL_PROGRAMS; i++) {
        if (m->cache[i].program) {
            m->dev->ops->program_free(m->cache[i].program);
        }
    }
    m->dev->ops->replica_release(&m->replica);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    memset(m, 0, sizeof(*m));
}

struct dev_program *model_program(struct model *m, int batch, struct err *e)
{
    struct dev_program *p = NULL;
    pthread_mutex_lock(&m->lock);
    while (m->wanted == batch || m->building == batch) {
        pthread_cond_wait(&m->changed, &m->lock);
    }
    int i = find(m, batch);
    if (i < 0) {
        p = build(m, batch, true, e);
        if (p) {
            keep(m, batch, p);
        }
    } else {
        p = m->cache[i].program;
        m->cache[i].used = ++m->uses;
    }
    m->held = p ? p : m->held;
    pthread_mutex_unlock(&m->lock);
    return p;
}

bool model_ready(struct model *m, int batch)
{
    if (batch <= 0) {
        return true;
    }
    pthread_mutex_lock(&m->lock);
    bool there = find(m, batch) >= 0;
    bool worth = !there && batch <= m->largest && m->refused != batch;
    if (worth && m->threaded && m->building != batch) {
        m->wanted = batch;
        pthread_cond_broadcast(&m->changed);
    } else if (worth && !m->threaded) {
        struct err e = {0};
        struct dev_program *p = build(m, batch, false, &e);
        if (p) {
            keep(m, batch, p);
            there = true;
        } else {
            refuse(m, batch, &e);
        }
    }
    pthread_mutex_unlock(&m->lock);
    return there;
}

int model_largest_program(struct model *m)
{
    int largest = 0;
    pthread_mutex_lock(&m->lock);
    for (int i = 0; i < MODEL_PROGRAMS; i++) {
        largest = m->cache[i].program && m->cache[i].batch > largest ? m->cache[i].batch : largest;
    }
    pthread_mutex_unlock(&m->lock);
    return largest;
}

/* The estimate, or the device's answer, may have named a size that does not fit either: a device
 * uses memory that neither accounts for. */
static void tell_limit(int batch, int fits, size_t there, struct err *e)
{
    err_set(e, ERR_MEMORY,
            "a minibatch of %d does not fit the device's memory, of which %.0f MiB are free: one "
            "of %d does",
            batch, (double)there / mib, fits);
    err_hint(e, "%s", smaller);
}

int model_find_limit(struct model *m, int batch, struct err *why)
{
    enum { NEAR = 16 }; /* less than one sixteenth more is not worth another program */
    int fits = 0, fails = batch;
    pthread_mutex_lock(&m->lock);
    size_t there = m->dev->ops->memory_bytes(m->dev);
    int next = m->largest < batch ? m->largest : batch / 2; /* starts with the estimate */
    while (next > fits + fits / NEAR) {
        struct err e = {0};
        struct dev_program *p = build(m, next, true, &e);
        if (p) {
            keep(m, next, p);
            m->held = p;
            fits = next;
        } else if (e.code == ERR_MEMORY) {
            fails = next;
        } else {
            break;
        }
        next = (fits + fails) / 2;
    }
    if (fits > 0) {
        m->largest = fits < m->largest ? fits : m->largest;
        tell_limit(batch, fits, there, why);
    }
    pthread_mutex_unlock(&m->lock);
    return fits;
}

int model_limit(struct model *m)
{
    pthread_mutex_lock(&m->lock);
    int largest = m->largest;
    pthread_mutex_unlock(&m->lock);
    return largest;
}
