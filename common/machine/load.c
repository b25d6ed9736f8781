/* See load.h. */
#include "common/machine/load.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/machine/gpu.h"
#include "common/machine/groups.h"
#include "common/machine/host.h"
#include "common/machine/memory.h"
#include "common/process/proc.h"

/* 2 s for half an hour, 1 min for a day, 10 min for a week */
const struct load_tier load_tiers[LOAD_TIERS] = {{2, 900}, {60, 1440}, {600, 1008}};

static const double at_most = 1.2; /* a higher share of processors is a reading error */

/* ---- one figure each ------------------------------------------------------------------------- */

/* Seconds of processor time, used and available: of the control group if it has a quota, else of
 * the machine. */
static void read_cpu(double now, double *used, double *all)
{
    char path[PATH_MAX + 32];
    struct group g = {.path = ""};
    double quota = group_cpu_quota("/proc", "/sys/fs/cgroup", &g);
    snprintf(path, sizeof(path), "%s/cpu.stat", g.path);
    double ours = quota > 0 ? proc_number(path, "usage_usec") : NAN;
    if (!isnan(ours)) {
        *used = ours / 1e6;
        *all = now * quota;
        return;
    }
    host_cpu_read(used, all);
}

/* Bytes of all interfaces except loopback since they came up. */
static void read_network(double *received, double *sent)
{
    enum { FIELDS = 9 }; /* the first is received, the last is sent */
    char *text = proc_read_file("/proc/net/dev", 1 << 18, NULL, NULL), *colon = text, *end;
    *received = *sent = text ? 0 : NAN;
    while (colon && (colon = strchr(colon, ':')) != NULL) { /* "    lo: 123 4 …" */
        bool loopback = colon - text >= 3 && strncmp(colon - 3, " lo", 3) == 0;
        colon++;
        for (int field = 0; field < FIELDS && !loopback; field++) {
            double v = strtod(colon, &end);
            *received += field == 0 ? v : 0;
            *sent += field == FIELDS - 1 ? v : 0;
            colon = end;
        }
    }
    free(text);
}

/* A counter that decreased has started again from 0. */
static double rate(double before, double now, double seconds)
{
    return seconds > 0 && now >= before ? (now - before) / seconds : NAN;
}

void load_read(struct load_meter *m, struct load *out)
{
    struct load_meter now = {.at = clock_now()};
    read_cpu(now.at, &now.cpu_used, &now.cpu_all);
    read_network(&now.received, &now.sent);
    struct memory memory = memory_read();
    double seconds = m->at > 0 ? now.at - m->at : 0,
           share = rate(m->cpu_used, now.cpu_used, now.cpu_all - m->cpu_all);
    *out = (struct load){.seconds = seconds,
                         .cpu = m->at > 0 && share <= at_most ? fmin(1, share) : NAN,
                         .memory_used = fmax(0, (double)(memory.limit - memory.room)),
                         .memory = (double)memory.limit,
                         .received = rate(m->received, now.received, seconds),
                         .sent = rate(m->sent, now.sent, seconds),
                         .gpu = NAN,
                         .gpu_memory_used = NAN,
                         .gpu_memory = NAN};
    *m = now;
}

void load_take_gpu(struct load *l, const json_t *gpu)
{
    gpus_figures(gpu, &l->gpu, &l->gpu_memory_used, &l->gpu_memory);
}

/* ---- means ----------------------------------------------------------------------------------- */

void load_figures(struct load *l, double *out[LOAD_FIGURES])
{
    double *all[LOAD_FIGURES] = {&l->cpu,  &l->memory_used, &l->memory,          &l->received,
                                 &l->sent, &l->gpu,         &l->gpu_memory_used, &l->gpu_memory};
    memcpy(out, all, sizeof all);
}

bool load_mean_add(struct load_means *m, int tier, const struct load *l, struct load *out)
{
    struct load_mean *mean = &m->tiers[tier];
    struct load one = *l;
    double *sum[LOAD_FIGURES], *weight[LOAD_FIGURES], *value[LOAD_FIGURES], *result[LOAD_FIGURES];
    load_figures(&mean->sum, sum);
    load_figures(&mean->weight, weight);
    load_figures(&one, value);
    for (int i = 0; i < LOAD_FIGURES; i++) {
        if (isfinite(*value[i]) && l->seconds > 0) {
            *sum[i] += *value[i] * l->seconds;
            *weight[i] += l->seconds;
        }
    }
    mean->sum.seconds += l->seconds;
    if (mean->sum.seconds < load_tiers[tier].seconds - 0.5) {
        return false;
    }
    *out = (struct load){.seconds = mean->sum.seconds};
    load_figures(out, result);
    for (int i = 0; i < LOAD_FIGURES; i++) {
        *result[i] = *weight[i] > 0 ? *sum[i] / *weight[i] : NAN;
    }
    *mean = (struct load_mean){0};
    return true;
}
