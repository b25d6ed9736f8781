/* See bookmark.h. */
#include "job/documents/coordinator/bookmark.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bookmark_init(struct bookmark *b, int ranks)
{
    memset(b, 0, sizeof *b);
    b->ranks = ranks;
    b->rows = calloc((size_t)ranks + 1, sizeof *b->rows);
    b->numbers = calloc((size_t)ranks + 1, sizeof *b->numbers);
    b->steps = calloc((size_t)ranks + 1, sizeof *b->steps);
    b->gone = calloc((size_t)ranks + 1, sizeof *b->gone);
    BUG_ON(!b->rows || !b->numbers || !b->steps || !b->gone);
    snprintf(b->facts, sizeof b->facts, "0-0");
    for (int r = 0; r < ranks; r++) {
        snprintf(b->rows[r], sizeof b->rows[r], "0-0");
        b->steps[r] = -1;
    }
}

/* {"0": 7}, for the ranks whose number is `least` or more. */
static json_t *numbers_json(const int64_t *of, int ranks, int64_t least)
{
    json_t *j = json_object();
    for (int r = 0; r < ranks; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", r);
        if (of[r] >= least) {
            json_object_set_new(j, key, json_integer((json_int_t)of[r]));
        }
    }
    return j;
}

/* Reads the numbers that are there. An older coordinator wrote none. */
static void read_numbers(const struct document *d, const char *name, int64_t *out, int ranks)
{
    if (!document_has(d, name)) {
        return;
    }
    struct document numbers = document_within(d, name);
    for (int r = 0; r < ranks; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", r);
        if (document_has(&numbers, key)) {
            out[r] = document_integer(&numbers, key, 0, INT64_MAX);
        }
    }
}

json_t *bookmark_json(const struct bookmark *b)
{
    json_t *j = document_new(BOOKMARK_FORMAT, &b->from), *rows = json_object();
    for (int r = 0; r < b->ranks; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", r);
        json_object_set_new(rows, key, json_string(b->rows[r]));
    }
    json_object_set_new(j, "facts", json_string(b->facts));
    json_object_set_new(j, "rows", rows);
    json_object_set_new(j, "numbers", numbers_json(b->numbers, b->ranks, 1));
    json_object_set_new(j, "steps", numbers_json(b->steps, b->ranks, 0));
    json_object_set_new(j, "gone", numbers_json(b->gone, b->ranks, 1));
    json_object_set_new(j, "gate_open", json_boolean(b->gate_open));
    json_object_set_new(j, "log_offset", json_integer((json_int_t)b->log_offset));
    if (b->training_samples > 0) {
        json_object_set_new(j, "training_samples", json_integer((json_int_t)b->training_samples));
    }
    if (b->has_ended) {
        json_object_set_new(j, "outcome", ended_json(&b->ended));
    }
    if (b->program.global_batch > 0) {
        json_object_set_new(j, "program", joined_json(&b->program));
    }
    if (b->n_left > 0) {
        json_t *left = json_array();
        for (int i = 0; i < b->n_left; i++) {
            json_array_append_new(left, departure_json(&b->left[i]));
        }
        json_object_set_new(j, "left", left);
    }
    return j;
}

static void read_left(const struct document *d, struct bookmark *out)
{
    const json_t *left = document_list(d, "left", 0, BOOKMARK_RANKS);
    size_t n = json_array_size(left);
    out->left = calloc(n + 1, sizeof *out->left);
    BUG_ON(!out->left);
    for (size_t i = 0; i < n; i++) {
        struct document one = document_element(d, "left", i);
        departure_parse(&one, &out->left[out->n_left++]);
    }
}

int bookmark_read(struct bookmark *out, int ranks, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    bookmark_init(out, ranks);
    struct document d = document_open(j, BOOKMARK_FORMAT, &out->from, &problems);
    document_text(&d, "facts", out->facts, sizeof out->facts);
    struct document rows = document_within(&d, "rows");
    for (int r = 0; r < ranks; r++) {
        char key[16];
        snprintf(key, sizeof key, "%d", r);
        if (document_has(&rows, key)) { /* an earlier attempt may have had fewer ranks */
            document_text(&rows, key, out->rows[r], sizeof out->rows[r]);
        }
    }
    read_numbers(&d, "numbers", out->numbers, ranks);
    read_numbers(&d, "steps", out->steps, ranks);
    read_numbers(&d, "gone", out->gone, ranks);
    out->gate_open = document_flag(&d, "gate_open");
    out->log_offset = document_integer(&d, "log_offset", 0, INT64_MAX);
    if (document_has(&d, "training_samples")) {
        out->training_samples = document_integer(&d, "training_samples", 0, INT64_MAX);
    }
    out->has_ended = document_has(&d, "outcome");
    if (out->has_ended) {
        struct document ended = document_within(&d, "outcome");
        ended_parse(&ended, &out->ended);
    }
    if (document_has(&d, "program")) {
        struct document program = document_within(&d, "program");
        joined_parse(&program, &out->program);
    }
    if (document_has(&d, "left")) {
        read_left(&d, out);
    }
    return document_close(&d, "the monitor's bookmark", e);
}

void bookmark_release(struct bookmark *b)
{
    for (int i = 0; b->left && i < b->n_left; i++) {
        departure_release(&b->left[i]);
    }
    free(b->left);
    free(b->rows);
    free(b->numbers);
    free(b->steps);
    free(b->gone);
    memset(b, 0, sizeof *b);
}
