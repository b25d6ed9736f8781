/* The loader's thread and its two slots (see loader.h for what callers may rely on).
 *
 * The thread writes only into the slot that is not current, and loader_get changes `current` only
 * while the thread is idle, so the samples themselves need no lock.
 */
#include "worker/data/loader.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/machine/memory.h"
#include "kernels/samples.h"
#include "worker/data/files/direct.h"
#include "worker/data/files/stored.h"

enum {
    FROM_DISK = 256,       /* slices for which samples count as coming from disk */
    PAGES_OF_EDGES = 8192, /* bytes of other samples in a sample's pages */
    FEWEST_READS = 16,     /* under way past the page cache */
};
static const double room_seconds = 1;

static void slot_release(const struct loader *l, struct loader_slot *s)
{
    if (s->feed) {
        l->feeds->ops->feed->free(s->feed);
    } else {
        free(s->x);
    }
    free(s->index);
    free(s->view);
    free(s->y);
    memset(s, 0, sizeof *s);
}

/* x of a slot: in a feed, if the device has feeds and memory for one. */
static float *slot_x(const struct loader *l, struct loader_slot *s, size_t floats)
{
    struct err why = {0};
    char quoted[600];
    float *x = NULL;
    s->feed = l->feeds ? l->feeds->ops->feed->make(l->feeds, floats, &x, &why) : NULL;
    if (l->feeds && !s->feed) {
        log_warn("loader", "samples are copied in the step that uses them", "why=%s",
                 log_quote(quoted, sizeof(quoted), why.message));
    }
    return s->feed ? x : malloc(floats * sizeof(float));
}

static int slot_room(const struct loader *l, struct loader_slot *s, int64_t count, struct err *e)
{
    if (count <= s->room) {
        return 0;
    }
    size_t n = (size_t)count, target = l->data->y_labels ? 1 : (size_t)l->data->target;
    slot_release(l, s);
    s->index = malloc(n * sizeof(*s->index));
    struct shape shape = dataset_shape(l->data, l->spec);
    s->x = l->dev ? NULL : slot_x(l, s, n * shape_count(&shape));
    s->view = l->dev ? malloc(n * sizeof(*s->view)) : NULL;
    s->y = malloc(n * target * 4);
    s->room = s->index && (s->x || s->view) && s->y ? count : 0;
    return s->room
               ? 0
               : err_set(e, ERR_MEMORY, "cannot hold a minibatch of %lld samples: memory ran out",
                         (long long)count);
}

/* Pages that this thread has waited for, plus blocks that it has read from disks. */
static long disk_reads(void)
{
    struct rusage used;
    return getrusage(RUSAGE_THREAD, &used) == 0 ? used.ru_majflt + used.ru_inblock : 0;
}

/* The reads past the page cache for this part, sized for slices of `count` samples. */
static struct direct *direct(struct loader *l, const struct dataset_part *part, int64_t count)
{
    size_t each = part->stored->form.sample;
    int64_t bound = AHEAD_BYTES / ((int64_t)each + PAGES_OF_EDGES), most = AHEAD_SLICES * count;
    if (count > l->direct_for && bound >= FEWEST_READS) {
        direct_free(l->direct);
        l->direct = direct_new((int)(most < bound ? most : bound), each);
        l->direct_for = count;
    }
    return l->direct;
}

/* Which samples stay in the page cache, while samples come from disk; NULL: all. The memory for
 * them may change when other processes start or end. */
static const struct once *once(struct loader *l, const struct dataset_part *part, int64_t count)
{
    size_t each = part->stored ? part->stored->form.sample : 0;
    double now = clock_now();
    if (!l->once.room && each > 0) {
        l->once.room = malloc(each);
    }
    if (!l->once.room || each == 0) {
        return NULL;
    }
    l->once.direct = part == &l->data->train ? direct(l, part, count) : NULL;
    if (l->measured == 0 || now > l->measured + room_seconds) {
        int64_t room = memory_read().room,
                under_way = AHEAD_SLICES * count * ((int64_t)each + PAGES_OF_EDGES);
        under_way = l->direct                 ? 0 /* its buffers are this process's memory */
                    : under_way < AHEAD_BYTES ? under_way
                                              : AHEAD_BYTES;
        l->once.kept = dataset_kept(l->data, room - room / 16 - under_way);
        l->measured = now;
    }
    return l->once.kept < 1 ? &l->once : NULL;
}

/* Gathers the slot's samples. A data set larger than memory is partly on disk. Once gathering had
 * to wait for a page, this asks for all pages of a slice and of the following ones before it
 * touches the first. */
static int gather(struct loader *l, struct loader_slot *s, const struct slice *slice, bool test,
                  struct err *e)
{
    const struct dataset_part *part = test ? &l->data->test : &l->data->train;
    bool reads = l->from_disk > 0;
    const struct once *kept = reads ? once(l, part, slice->count) : NULL;
    struct visit visit = {!test, l->seed, slice->epoch, kept};
    struct ahead_from from = {part, dataset_x_bytes(l->data), l->seed, l->spec->shuffle, test,
                              kept};
    long before = disk_reads();
    ahead_next(&l->ahead[test], &from, slice);
    if (reads) {
        l->from_disk--;
        ahead_ask(&l->ahead[test], &from);
    }
    dataset_gather(l->data, part, l->spec, &visit, s->index, slice->count, s->x, s->y);
    if (disk_reads() > before) {
        l->from_disk = FROM_DISK;
    }
    return dataset_intact(l->data, e);
}

static int slot_fill(struct loader *l, struct loader_slot *s, const struct slice *slice, bool test,
                     struct err *e)
{
    const struct dataset_part *part = test ? &l->data->test : &l->data->train;
    if (slice->start < 0 || slice->count < 0 || slice->start > part->samples - slice->count) {
        return err_set(e, ERR_INTERNAL, "a slice of %lld samples from %lld on is not within %lld",
                       (long long)slice->count, (long long)slice->start, (long long)part->samples);
    }
    int rc = slot_room(l, s, slice->count, e);
    if (rc < 0) {
        return rc;
    }
    for (int64_t i = 0; i < slice->count; i++) {
        int64_t at = slice->start + i;
        s->index[i] =
            test ? at : sample_index(l->seed, slice->epoch, at, part->samples, l->spec->shuffle);
    }
    if (l->dev) {
        struct visit visit = {!test, l->seed, slice->epoch, NULL};
        s->viewed = dataset_views(l->data, l->spec, &visit, s->index, slice->count, s->view);
        dataset_targets(l->data, part, s->index, slice->count, s->y);
    } else {
        rc = gather(l, s, slice, test, e);
    }
    if (rc == 0 && s->feed) {
        struct shape shape = dataset_shape(l->data, l->spec);
        rc = l->feeds->ops->feed->send(s->feed, (size_t)slice->count * shape_count(&shape), e);
    }
    s->slice = *slice;
    s->slice.count = rc < 0 ? 0 : slice->count;
    s->test = test;
    return rc;
}

static bool holds(const struct loader_slot *s, const struct slice *slice, bool test)
{
    return s->test == test && s->slice.epoch == slice->epoch && s->slice.start == slice->start &&
           s->slice.count == slice->count;
}

static void *loader_main(void *arg)
{
    struct loader *l = arg;
    pthread_setname_np(pthread_self(), "loader");
    pthread_mutex_lock(&l->lock);
    while (!l->stopping) {
        if (l->wanted.count == 0) {
            pthread_cond_wait(&l->changed, &l->lock);
            continue;
        }
        struct slice slice = l->wanted;
        bool test = l->wanted_test;
        struct loader_slot *s = &l->slot[1 - l->current];
        struct err e = {0};
        l->wanted.count = 0;
        l->busy = true;
        pthread_mutex_unlock(&l->lock);
        slot_fill(l, s, &slice, test, &e); /* if it fails, loader_get will try itself, and report */
        pthread_mutex_lock(&l->lock);
        l->busy = false;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static void slots_release(struct loader *l)
{
    for (int i = 0; i < 2; i++) {
        slot_release(l, &l->slot[i]);
    }
}

int loader_start(struct loader *l, const struct dataset *data, const struct data_spec *spec,
                 uint64_t seed, int64_t room, bool threaded, struct err *e)
{
    memset(l, 0, sizeof(*l));
    l->data = data;
    l->spec = spec;
    l->seed = seed;
    int rc = slot_room(l, &l->slot[0], room, e);
    if (rc == 0 && threaded) {
        rc = slot_room(l, &l->slot[1], room, e);
    }
    if (rc < 0) {
        slots_release(l);
        return rc;
    }
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (threaded && pthread_create(&l->thread, NULL, loader_main, l) != 0) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        slots_release(l);
        return err_set(e, ERR_MEMORY, "cannot start the loader's thread");
    }
    l->threaded = threaded;
    return 0;
}

/* Copies bytes for the device if they are not contiguous in the device's order (stored.h), or not
 * decoded yet. */
static struct dev_samples *keep_part(const struct loader *l, struct device *dev,
                                     const struct dataset_part *part, struct err *e)
{
    float table[DATASET_CHANNELS][256];
    struct dev_source from;
    struct dataset_part whole = *part;
    void *copy = NULL;
    bool elsewhere = part->stored || part->pictures;
    if (!part->x && elsewhere && l->data->x_bytes && part->samples > 0) {
        copy = malloc((size_t)part->samples * dataset_x_bytes(l->data));
        if (!copy) {
            err_set(e, ERR_MEMORY, "cannot hold a data set for the device: memory ran out");
            return NULL;
        }
        dataset_copy(l->data, part, 0, part->samples, copy);
        whole.x = copy;
    }
    struct dev_samples *kept = dataset_source(l->data, &whole, l->spec, &from, table)
                                   ? dev->ops->samples->make(dev, &from, e)
                                   : NULL;
    free(copy);
    return kept;
}

int loader_keep(struct loader *l, struct device *dev, struct err *e)
{
    const struct dataset *d = l->data;
    double bytes = (double)(d->train.samples + d->test.samples) * (double)shape_count(&d->input);
    struct err why = {0};
    if (!dev->ops->samples || bytes > 0.5 * (double)dev->ops->memory_bytes(dev)) {
        return KEPT_BY_HOST;
    }
    struct dev_samples *train = keep_part(l, dev, &d->train, &why);
    struct dev_samples *test =
        train && d->test.samples > 0 ? keep_part(l, dev, &d->test, &why) : NULL;
    if (!train || (d->test.samples > 0 && !test)) {
        dev->ops->samples->free(train);
        if (why.code != ERR_NONE && why.code != ERR_MEMORY && e) {
            *e = why;
        }
        return why.code == ERR_NONE || why.code == ERR_MEMORY ? KEPT_BY_HOST : -(int)why.code;
    }
    l->train = train;
    l->test = test;
    l->dev = dev;
    slots_release(l); /* they are allocated again, without room for pictures */
    log_info("loader", "the device keeps the data set", "bytes=%.0f", bytes);
    return KEPT_BY_DEVICE;
}

void loader_feed(struct loader *l, struct device *dev)
{
    if (!l->dev && dev->ops->feed) {
        slots_release(l); /* they are made anew, as feeds */
        l->feeds = dev;
        log_info("loader", "samples are copied to the device during the step before", "device=%s",
                 dev->ops->name);
    }
}

void loader_stop(struct loader *l)
{
    if (!l->data) {
        return;
    }
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        l->stopping = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    slots_release(l);
    free(l->once.room);
    direct_free(l->direct);
    if (l->dev) {
        l->dev->ops->samples->free(l->train);
        l->dev->ops->samples->free(l->test);
    }
    memset(l, 0, sizeof(*l));
}

static int get(struct loader *l, const struct slice *slice, bool test, struct dev_input *in,
               struct err *e)
{
    pthread_mutex_lock(&l->lock);
    while (l->busy || (l->threaded && l->wanted.count > 0)) {
        pthread_cond_wait(&l->changed, &l->lock);
    }
    l->current = l->threaded ? 1 - l->current : 0; /* without a thread one slot is enough */
    struct loader_slot *s = &l->slot[l->current];
    pthread_mutex_unlock(&l->lock);
    int rc = holds(s, slice, test) ? 0 : slot_fill(l, s, slice, test, e);
    if (rc < 0) {
        return rc;
    }
    in->x = s->x;
    in->fed = s->feed;
    in->from = !l->dev ? NULL : test ? l->test : l->train;
    in->view = l->dev && s->viewed ? s->view : NULL;
    in->y = s->y;
    in->sample = s->index;
    in->count = (int)slice->count;
    in->epoch = slice->epoch;
    in->seed = l->seed;
    in->training = !test;
    return 0;
}

int loader_get(struct loader *l, const struct slice *slice, struct dev_input *in, struct err *e)
{
    return get(l, slice, false, in, e);
}

int loader_get_test(struct loader *l, int64_t first, int64_t count, struct dev_input *in,
                    struct err *e)
{
    struct slice slice = {0, first, count};
    return get(l, &slice, true, in, e);
}

static void hint(struct loader *l, const struct slice *next, bool test)
{
    if (!l->threaded || next->count <= 0) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    if (!holds(&l->slot[1 - l->current], next, test)) {
        l->wanted = *next;
        l->wanted_test = test;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
}

void loader_hint(struct loader *l, const struct slice *next)
{
    hint(l, next, false);
}

void loader_hint_test(struct loader *l, int64_t first, int64_t count)
{
    struct slice slice = {0, first, count};
    hint(l, &slice, true);
}
