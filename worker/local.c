/* See local.h. */
#include "worker/local.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((format(printf, 2, 3))) static void print_line(const struct local *l, const char *fmt,
                                                             ...)
{
    char line[4400];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    n = n < (int)sizeof(line) ? n : (int)sizeof(line) - 1;
    ssize_t wrote = write(l->fd, line, (size_t)n);
    (void)wrote; /* training continues without a reader */
}

static void on_phase(void *ctx, enum phase p)
{
    (void)ctx;
    (void)p;
}

static void on_row(void *ctx, const struct row *r)
{
    char text[ROW_CSV_BYTES];
    row_csv(r, text);
    print_line(ctx, "row,%s\n", text);
}

static void on_evaluated(void *ctx, const struct evaluation *v)
{
    print_line(ctx, "evaluation,%lld,%.6f,%.6f,%.6f,%.6f,%lld,%d\n", (long long)v->step, v->epoch,
               v->time, v->loss, v->accuracy, (long long)v->samples, v->final);
}

static void on_joined(void *ctx, const struct joined *program, const int *first_sizes)
{
    struct local *l = ctx;
    if (first_sizes) {
        memcpy(l->control.sizes, first_sizes, sizeof(int) * (size_t)l->workers);
    }
    if (l->rank == 0) {
        print_line(l, "joined,%lld,%lld,%d,%g\n", (long long)program->parameters,
                   (long long)program->samples, program->global_batch, program->epochs);
    }
}

static void on_profile(void *ctx, const struct profile *p)
{
    print_line(ctx, "profile,%d,%.6g,%.6g\n", ((struct local *)ctx)->rank, p->a, p->k);
}

static void on_saved(void *ctx, const char *kind, const char *path, int64_t step, double time)
{
    (void)time;
    print_line(ctx, "saved,%s,%s,%lld\n", kind, path, (long long)step);
}

static void on_restored(void *ctx, const struct run_state *state)
{
    struct local *l = ctx;
    if (l->rank == l->workers) {
        print_line(l, "restored,%lld\n", (long long)state->version);
    }
}

static void on_control(void *ctx, struct control *out)
{
    struct local *l = ctx;
    *out = l->control;
    out->stop = *l->stop != 0;
}

int local_open(struct local *l, const char *lines, struct err *e)
{
    l->fd = lines ? open(lines, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : STDOUT_FILENO;
    return l->fd < 0 ? err_errno(e, ERR_IO, "cannot write lines to '%s'", lines) : 0;
}

void local_telemetry(struct local *l, struct telemetry *out)
{
    *out = (struct telemetry){.ctx = l,
                              .phase = on_phase,
                              .row = on_row,
                              .evaluated = on_evaluated,
                              .joined = on_joined,
                              .profile = on_profile,
                              .saved = on_saved,
                              .control = on_control,
                              .restored = on_restored};
}
