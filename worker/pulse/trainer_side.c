/* The trainer's side of the pulse (see pulse.h): telemetry calls, made by the thread that trains.
 * They copy into queues and counters under a lock that no thread holds while it waits.
 */
#include "worker/pulse/parts.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"

static void on_phase(void *ctx, enum phase phase)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->phase = phase;
    p->progress_at = clock_now();
    p->cpu.elsewhere = p->cpu.elsewhere || phase == PHASE_EVALUATE || phase == PHASE_CHECKPOINT;
    if (phase == PHASE_CHECKPOINT) { /* rows of the steps that it covers would be lost with this
                                        rank */
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
}

static void count_row(struct pulse *p, const struct row *r)
{
    p->step = r->step > p->step ? r->step : p->step;
    p->epoch = r->epoch;
    p->batch = r->batch;
    if (r->batch > 0) {
        p->samples += r->batch;
        p->updates++;
        staleness_add(&p->staleness, r->staleness, r->batch);
    }
}

/* Records the CPU time of a step without waits. It tells how often a quota allows a step. */
static void count_cpu(struct cpu_used *c, int batch)
{
    double now = clock_process_cpu(), used = now - c->at + c->program;
    if (batch != c->batch && batch == c->last) { /* not once, as at the end of an epoch */
        *c = (struct cpu_used){.batch = batch, .elsewhere = c->elsewhere};
    }
    if (batch == c->batch && batch > 0 && !c->elsewhere) {
        c->seconds += used;
        c->steps++;
    }
    c->last = batch;
    c->at = now;
    c->program = 0;
    c->elsewhere = false;
}

static void on_program_cpu(void *ctx, double seconds)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->cpu.program += seconds;
    pthread_mutex_unlock(&p->lock);
}

/* Rows of steps that are repeated exist already. */
static void on_undone(void *ctx, int staleness, int64_t steps, int64_t samples)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->samples -= samples;
    p->updates -= steps;
    staleness_take_back(&p->staleness, staleness, steps, (double)samples);
    p->undone_to = p->step;
    pthread_mutex_unlock(&p->lock);
}

static void queue_row(struct pulse *p, const struct row *row)
{
    if (p->n_rows - p->first_row == PULSE_ROWS) {
        p->first_row++;
        p->dropped++;
    }
    p->rows[p->n_rows++ % PULSE_ROWS] = *row;
}

static void on_received(void *ctx, int64_t bytes, int64_t of_bytes)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->received = bytes;
    p->receives = of_bytes;
    pthread_mutex_unlock(&p->lock);
}

static void on_row(void *ctx, const struct row *r)
{
    struct pulse *p = ctx;
    struct row row = *r;
    row.attempt = (int16_t)p->from.attempt;
    pthread_mutex_lock(&p->lock);
    count_row(p, r);
    if (p->quota > 0) {
        count_cpu(&p->cpu, r->batch);
    }
    if (r->step > p->undone_to) {
        queue_row(p, &row);
    }
    p->progress_at = clock_now();
    pthread_mutex_unlock(&p->lock);
}

void pulse_queue(struct pulse *p, struct fact *fact)
{
    fact->number = ++p->number;
    json_t *j = fact_json(fact);
    if (p->n_facts == PULSE_FACTS) { /* Redis has been away for long: drops the oldest */
        json_decref(p->facts[0]);
        memmove(p->facts, p->facts + 1, sizeof(p->facts[0]) * --p->n_facts);
    }
    p->facts[p->n_facts++] = j;
}

static void tell(struct pulse *p, struct fact *fact)
{
    pthread_mutex_lock(&p->lock);
    pulse_queue(p, fact);
    pthread_cond_signal(&p->wake);
    pthread_mutex_unlock(&p->lock);
}

static struct fact fact_of(const struct pulse *p, enum fact_type type)
{
    struct fact f = {.type = type, .from = p->from};
    snprintf(f.node, sizeof(f.node), "%s", p->node);
    return f;
}

static void on_loaded(void *ctx, int64_t samples)
{
    struct fact f = fact_of(ctx, FACT_LOADED);
    f.loaded = samples;
    tell(ctx, &f);
}

static void on_evaluated(void *ctx, const struct evaluation *v)
{
    struct fact f = fact_of(ctx, FACT_EVALUATION);
    f.evaluation = *v;
    tell(ctx, &f);
}

/* If Redis has been away for long, norms are dropped in favour of other facts. */
static void on_norms(void *ctx, const struct norms *n)
{
    struct pulse *p = ctx;
    struct fact f = fact_of(p, FACT_NORMS);
    pthread_mutex_lock(&p->lock);
    bool room = p->n_facts < PULSE_FACTS / 2;
    pthread_mutex_unlock(&p->lock);
    if (room) {
        f.norms = *n;
        tell(p, &f);
    }
}

static void on_logged(void *ctx, const struct logged_point *point)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    log_queue_add(&p->logged, point);
    if (log_queue_is_urgent(&p->logged)) {
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
}

/* Minibatches from the coordinator have a higher version than these. */
static void on_joined(void *ctx, const struct joined *program, const int *first_sizes)
{
    struct pulse *p = ctx;
    struct fact f = fact_of(p, FACT_JOINED);
    pthread_mutex_lock(&p->lock);
    if (first_sizes && p->control.version == p->first_version) {
        memcpy(p->control.sizes, first_sizes, sizeof(int) * (size_t)p->workers);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->from.rank == 0) {
        f.joined = *program;
        tell(p, &f);
    }
}

static void on_crashed(void *ctx, const char *why)
{
    struct fact f = fact_of(ctx, FACT_CRASHED);
    snprintf(f.crashed, sizeof(f.crashed), "%s", why);
    tell(ctx, &f);
}

static void on_profile(void *ctx, const struct profile *profile)
{
    struct fact f = fact_of(ctx, FACT_PROFILE);
    f.profile.a = profile->a;
    f.profile.k = profile->k;
    f.profile.max_batch = profile->max_batch;
    tell(ctx, &f);
}

static void on_tuned(void *ctx, json_t *tuning)
{
    struct fact f = fact_of(ctx, FACT_TUNING);
    f.tuning = tuning;
    tell(ctx, &f);
    fact_release(&f);
}

static void on_saved(void *ctx, const char *kind, const char *path, int64_t step, double time)
{
    struct pulse *p = ctx;
    struct fact f = fact_of(p, strcmp(kind, "checkpoint") == 0 ? FACT_CHECKPOINT : FACT_ARTIFACT);
    snprintf(f.saved.file, sizeof(f.saved.file), "%s", path);
    f.saved.step = step;
    f.saved.time = time;
    pthread_mutex_lock(&p->lock);
    p->step = step > p->step ? step : p->step;
    pthread_mutex_unlock(&p->lock);
    tell(p, &f);
}

/* Restores counters from the checkpoint: per worker if the server kept them so, else in equal
 * shares (sync: nothing is stale). */
static void restore_counters(struct pulse *p, const struct run_state *state)
{
    staleness_release(&p->staleness);
    staleness_init(&p->staleness);
    if (state->staleness) {
        staleness_restore(&p->staleness, state->staleness, p->from.rank, p->workers);
        p->samples = (int64_t)p->staleness.samples;
        p->updates = p->staleness.count;
        return;
    }
    p->samples =
        state->applied_samples / p->workers + (p->from.rank < state->applied_samples % p->workers);
    p->updates = state->version;
    for (int64_t i = 0; i < p->updates; i++) {
        staleness_add(&p->staleness, 0, (int)(p->samples / p->updates));
    }
}

static void on_restored(void *ctx, const struct run_state *state)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->step = state->version;
    if (p->from.rank < p->workers) {
        restore_counters(p, state);
    }
    pthread_mutex_unlock(&p->lock);
    if (p->from.rank == p->workers) {
        struct fact f = fact_of(p, FACT_RESTORED);
        f.version = state->version;
        tell(p, &f);
    }
}

static void on_control(void *ctx, struct control *out)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    *out = p->control;
    p->control.checkpoint = false; /* it is asked for once */
    pthread_mutex_unlock(&p->lock);
    if (p->stop_signal && *p->stop_signal) {
        out->stop = true;
    }
}

static int on_lost(void *ctx, int *out)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    int n = p->control.n_lost;
    memcpy(out, p->control.lost, sizeof(int) * (size_t)n);
    pthread_mutex_unlock(&p->lock);
    return n;
}

static void on_left(void *ctx, const struct departure *left)
{
    struct fact f = fact_of(ctx, FACT_LEFT);
    f.left = *left;
    tell(ctx, &f);
}

static int on_seats(void *ctx, int *out)
{
    struct pulse *p = ctx;
    int taken = 0;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < p->workers && p->seats_taken; i++) {
        out[i] = p->control.seats[i];
        taken += out[i] > 0;
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}

static void on_door(void *ctx, const char *where)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    snprintf(p->door, sizeof(p->door), "%s", where);
    pthread_mutex_unlock(&p->lock);
}

static bool find_door(void *ctx, int rank, char *out)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    bool known = control_door(p->doors, rank, out);
    pthread_mutex_unlock(&p->lock);
    return known;
}

static void on_returned(void *ctx, const struct departure *back)
{
    struct fact f = fact_of(ctx, FACT_RETURNED);
    f.left = *back;
    tell(ctx, &f);
}

static void on_served(void *ctx, int64_t version, double busy_fraction)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->step = version;
    p->busy_fraction = busy_fraction;
    p->progress_at = clock_now();
    pthread_mutex_unlock(&p->lock);
}

static void on_counted(void *ctx, int64_t samples)
{
    struct pulse *p = ctx;
    pthread_mutex_lock(&p->lock);
    p->samples = samples;
    pthread_mutex_unlock(&p->lock);
}

void pulse_telemetry(struct pulse *p, struct telemetry *out)
{
    *out = (struct telemetry){.ctx = p,
                              .phase = on_phase,
                              .row = on_row,
                              .program_cpu = on_program_cpu,
                              .loaded = on_loaded,
                              .evaluated = on_evaluated,
                              .norms = on_norms,
                              .logged = on_logged,
                              .joined = on_joined,
                              .crashed = on_crashed,
                              .profile = on_profile,
                              .saved = on_saved,
                              .control = on_control,
                              .restored = on_restored,
                              .tuned = on_tuned,
                              .received = on_received,
                              .lost = on_lost,
                              .left = on_left,
                              .seats = on_seats,
                              .returned = on_returned,
                              .door = on_door,
                              .find_door = find_door,
                              .undone = on_undone,
                              .counted = on_counted,
                              .served = on_served};
}

void pulse_ended(struct pulse *p, enum outcome outcome, const struct err *why,
                 const struct program_end *program)
{
    struct fact f = fact_of(p, FACT_ENDED);
    f.ended.outcome = outcome;
    f.ended.code = why ? why->code : ERR_NONE;
    if (why) { /* a job's error has no field for a hint */
        snprintf(f.ended.message, sizeof(f.ended.message), "%s%s%s", why->message,
                 why->hint[0] ? "; " : "", why->hint);
        f.ended.program = program ? *program : f.ended.program;
    }
    tell(p, &f);
}
