/* Devices by name: the rows of job/node/devices.def with the function that opens each, and what
 * callers of optional groups share.
 *
 * The CPU is part of the program; CUDA is a plug-in that is loaded when a GPU is asked for
 * (plugin.c). `auto` never fails because there is no GPU: it logs in one line why, and takes the
 * next kind.
 */
#include "kernels/device.h"

#include <string.h>

#include "common/log.h"
#include "job/node/device_kind.h"

/* In the order of the rows. */
static struct device *(*const opens[])(const char *args, struct err *e) = {
#define DEVICE(ident, name, argument, quantum, speed, precisions, help) name##_open,
#include "job/node/devices.def"
#undef DEVICE
};
enum { KINDS = sizeof(opens) / sizeof(*opens) };

/* ---- whole groups ---------------------------------------------------------------------------- */

/* Checks that a struct of function pointers, or a part of one, has no NULL. */
static void check_complete(const void *functions, size_t bytes)
{
    void (*const *fn)(void) = functions;
    for (size_t i = 0; i < bytes / sizeof(*fn); i++) {
        BUG_ON(!fn[i]);
    }
}

#define CHECK_GROUP(group)                             \
    do {                                               \
        if (group) {                                   \
            check_complete((group), sizeof(*(group))); \
        }                                              \
    } while (0)

void dev_check(const struct device_ops *ops)
{
    BUG_ON(!ops->name);
    check_complete(&ops->close,
                   offsetof(struct device_ops, memory) - offsetof(struct device_ops, close));
    CHECK_GROUP(ops->memory);
    CHECK_GROUP(ops->samples);
    CHECK_GROUP(ops->feed);
    CHECK_GROUP(ops->fused);
    CHECK_GROUP(ops->parts);
    CHECK_GROUP(ops->alias);
    CHECK_GROUP(ops->rules);
    CHECK_GROUP(ops->precision);
    CHECK_GROUP(ops->tuning);
    CHECK_GROUP(ops->meter);
}

/* ---- open, close ----------------------------------------------------------------------------- */

static struct device *open_kind(int i, const char *args, struct err *e)
{
    struct device *dev = opens[i](args, e);
    if (dev) {
        dev_check(dev->ops);
    }
    return dev;
}

/* The fastest kind not tried yet. */
static int next_kind(const bool *tried)
{
    int best = -1;
    for (int i = 0; i < KINDS; i++) {
        if (!tried[i] && (best < 0 || device_kind_at(i)->speed > device_kind_at(best)->speed)) {
            best = i;
        }
    }
    return best;
}

struct device *dev_open_fastest(struct err *why, struct err *e)
{
    bool tried[KINDS] = {false};
    struct device *dev = NULL;
    struct err failed = {0};
    err_clear(why);
    for (int i; !dev && (i = next_kind(tried)) >= 0;) {
        *why = failed;
        tried[i] = true;
        err_clear(&failed);
        dev = open_kind(i, "", &failed);
    }
    if (!dev && e) {
        *e = failed;
    }
    return dev;
}

static struct device *open_auto(struct err *e)
{
    struct err why;
    char quoted[600];
    struct device *dev = dev_open_fastest(&why, e);
    if (dev && why.code != ERR_NONE) {
        log_info("device", "auto takes the next kind", "device=%s why=%s", dev->ops->name,
                 log_quote(quoted, sizeof(quoted), why.message));
    }
    return dev;
}

struct device *dev_open(const char *name, struct err *e)
{
    if (strcmp(name, "auto") == 0) {
        return open_auto(e);
    }
    const char *colon = strchr(name, ':');
    const struct device_kind *kind = device_kind_of(name);
    for (int i = 0; kind && i < KINDS; i++) {
        if (device_kind_at(i) == kind) {
            return open_kind(i, colon ? colon + 1 : "", e);
        }
    }
    char forms[200];
    device_kind_forms(forms, sizeof(forms));
    err_set(e, ERR_INVALID, "there is no device '%.60s'; devices are %s and auto", name, forms);
    return NULL;
}

void dev_close(struct device *dev)
{
    if (dev) {
        dev->ops->close(dev);
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

int dev_step(struct dev_program *p, const struct dev_input *in, double lr, double scale,
             struct dev_result *out, struct err *e)
{
    const struct dev_program_head *head = (const struct dev_program_head *)p;
    return head->replica->dev->ops->fused->step(p, in, lr, scale, out, e);
}

int dev_update_part(struct dev_replica *r, size_t first, size_t n, double lr, double scale,
                    bool last, struct err *e)
{
    return r->dev->ops->parts->update(r, first, n, lr, scale, last, e);
}

void dev_alias(struct dev_replica *r, enum dev_block b, float *at)
{
    r->dev->ops->alias->set(r, b, at);
}

json_t *dev_tuning(struct device *dev)
{
    return dev->ops->tuning ? dev->ops->tuning->read(dev) : NULL;
}

void dev_tune(struct device *dev, const json_t *tuning)
{
    if (dev->ops->tuning && tuning) {
        dev->ops->tuning->apply(dev, tuning);
    }
}
