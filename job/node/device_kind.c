/* The table of job/node/devices.def: see device_kind.h. */
#include "job/node/device_kind.h"

#include <stdio.h>
#include <string.h>

#include "job/spec/catalog.h"

enum { UNKNOWN_QUANTUM = 4 };

static const struct device_kind kinds[] = {
#define DEVICE(ident, name, argument, quantum, speed, precisions, help) \
    {CAT_DEVICE_##ident, #name, DEVICE_##argument, quantum, speed, precisions},
#include "job/node/devices.def"
#undef DEVICE
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const char *const arguments[] = {[DEVICE_THREADS] = "THREADS", [DEVICE_INDEX] = "INDEX"};

const struct device_kind *device_kind_at(int i)
{
    return i >= 0 && i < KINDS ? &kinds[i] : NULL;
}

const struct device_kind *device_kind_of(const char *device)
{
    size_t length = device ? strcspn(device, ":") : 0;
    for (int i = 0; i < KINDS; i++) {
        if (length == strlen(kinds[i].name) && strncmp(device, kinds[i].name, length) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

void device_kind_forms(char *out, size_t out_bytes)
{
    size_t at = 0;
    for (int i = 0; i < KINDS && at < out_bytes; i++) {
        at += (size_t)snprintf(out + at, out_bytes - at, "%s%s:%s", i ? ", " : "", kinds[i].name,
                               arguments[kinds[i].argument]);
    }
}

int device_kind_quantum(const char *device)
{
    const struct device_kind *kind = device_kind_of(device);
    return kind ? kind->quantum : UNKNOWN_QUANTUM;
}

int device_kind_least_quantum(int least, const char *device)
{
    int quantum = device_kind_quantum(device);
    return least == 0 || quantum < least ? quantum : least;
}

double device_kind_speed(const char *device, int threads)
{
    const struct device_kind *kind = device_kind_of(device);
    if (!kind) {
        return threads;
    }
    return kind->argument == DEVICE_THREADS ? kind->speed * threads : kind->speed;
}

bool device_kind_offers(const char *device, const char *precision)
{
    const struct device_kind *kind = device_kind_of(device);
    size_t length = strlen(precision);
    for (const char *p = kind ? kind->precisions : "fp32"; *p; p += strspn(p, " ")) {
        size_t word = strcspn(p, " ");
        if (word == length && strncmp(p, precision, length) == 0) {
            return true;
        }
        p += word;
    }
    return false;
}
