/* The description of the program in JOIN, as JSON (client/protocol.h has its keys). */
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/session.h"

int64_t floats_of(const struct es_tensor *t)
{
    int64_t n = 1;

    for (int i = 0; i < t->dims; i++) {
        n *= t->shape[i];
    }
    return n;
}

int64_t floats_in(const struct es_tensor *t, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++) {
        sum += floats_of(&t[i]);
    }
    return sum;
}

static void put_string(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\' || *c < 0x20) {
            fprintf(f, "\\u%04x", *c);
        } else {
            fputc(*c, f);
        }
    }
    fputc('"', f);
}

static void put_number(FILE *f, const char *key, double value)
{
    if (isfinite(value)) {
        fprintf(f, ", \"%s\": %.17g", key, value);
    } else {
        fprintf(f, ", \"%s\": null", key);
    }
}

static void put_flag(FILE *f, const char *key, int value)
{
    fprintf(f, ", \"%s\": %s", key, value ? "true" : "false");
}

static void put_list(FILE *f, const char *key, const int64_t *numbers, int n)
{
    fprintf(f, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        fprintf(f, "%s%lld", i ? ", " : "", (long long)numbers[i]);
    }
    fputc(']', f);
}

static void put_tensors(FILE *f, const char *key, const struct es_tensor *t, int n, bool stats)
{
    fprintf(f, ", \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        char number[16];

        snprintf(number, sizeof(number), "%d", i);
        fprintf(f, "%s{\"name\": ", i ? ", " : "");
        put_string(f, t[i].name ? t[i].name : number);
        put_list(f, "shape", t[i].shape, t[i].dims);
        if (t[i].strides) {
            put_list(f, "strides", t[i].strides, t[i].dims);
        }
        if (stats) {
            fprintf(f, ", \"mean_of\": %d", t[i].mean_of - 1);
        } else {
            put_flag(f, "decay", !t[i].no_decay);
        }
        fputc('}', f);
    }
    fputc(']', f);
}

static void put_optimizer(FILE *f, const struct es_optimizer *o)
{
    fprintf(f, ", \"optimizer\": {\"type\": \"%s\", \"name\": ", o->server ? "sgd" : "other");
    put_string(f, o->name ? o->name : "");
    put_number(f, "learning_rate", o->learning_rate);
    put_number(f, "momentum", o->momentum);
    put_number(f, "weight_decay", o->weight_decay);
    put_flag(f, "nesterov", o->nesterov);
    fputc('}', f);
}

static void put_about(FILE *f, const struct es_about *about)
{
    fputs("{\"framework\": ", f);
    put_string(f, about->framework ? about->framework : "c");
    if (about->samples > 0) {
        fprintf(f, ", \"samples\": %lld", (long long)about->samples);
    } else {
        fputs(", \"samples\": null", f);
    }
    fprintf(f, ", \"global_batch\": %lld, \"ahead\": %d", (long long)about->global_batch,
            about->ahead > 0 ? about->ahead : 1);
    put_number(f, "epochs", about->epochs > 0 ? about->epochs : NAN);
    put_flag(f, "drop_last", about->drop_last);
    put_flag(f, "shuffle", !about->in_order);
    put_flag(f, "state", about->has_state);
    fprintf(f, ", \"stack_signal\": %d, \"reduction\": \"%s\"", about->stack_signal,
            about->sums ? "sum" : "mean");
    put_optimizer(f, &about->optimizer);
    put_tensors(f, "parameters", about->params, about->n_params, false);
    put_tensors(f, "statistics", about->stats, about->n_stats, true);
    fputs("}\n", f);
}

int describe(const struct es_about *about, char **text, size_t *n)
{
    /* the program's locale may have a decimal comma; JSON has none */
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), was;
    FILE *f = open_memstream(text, n);
    int failed;

    if (!f || !plain) {
        if (f) {
            fclose(f);
            free(*text);
        }
        if (plain) {
            freelocale(plain);
        }
        return es_fail("cannot join: no memory for the description: %s", strerror(errno));
    }
    was = uselocale(plain);
    put_about(f, about);
    uselocale(was);
    freelocale(plain);
    failed = ferror(f);
    if (fclose(f) != 0 || failed) {
        free(*text);
        return es_fail("cannot join: no memory for the description");
    }
    return 0;
}
