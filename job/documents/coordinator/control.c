/* See control.h. */
#include "job/documents/coordinator/control.h"

#include <stdio.h>
#include <string.h>

/* Writes the seats, if any worker was started again. */
static void write_seats(json_t *j, const struct control *c)
{
    json_t *seats = json_array();
    int taken = 0;
    for (int i = 0; i < c->workers; i++) {
        taken += c->seats[i];
        json_array_append_new(seats, json_integer(c->seats[i]));
    }
    if (taken > 0) {
        json_object_set(j, "seats", seats);
    }
    json_decref(seats);
}

static json_t *list_numbers(const int *numbers, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(list, json_integer(numbers[i]));
    }
    return list;
}

json_t *control_json(const struct control *c)
{
    json_t *j = document_new(CONTROL_FORMAT, &c->from);
    json_object_set_new(j, "version", json_integer(c->version));
    json_object_set_new(j, "sizes", list_numbers(c->sizes, c->workers));
    json_object_set_new(j, "stop", json_boolean(c->stop));
    json_object_set_new(j, "pause", json_boolean(c->pause));
    json_object_set_new(j, "checkpoint", json_boolean(c->checkpoint));
    json_object_set_new(j, "lost", list_numbers(c->lost, c->n_lost));
    write_seats(j, c);
    if (c->n_silent > 0) {
        json_object_set_new(j, "silent", list_numbers(c->silent, c->n_silent));
    }
    if (c->doors) {
        json_object_set(j, "doors", c->doors);
    }
    return j;
}

static void check_doors(const struct document *d)
{
    const json_t *doors = document_list(d, "doors", 0, SPEC_WORKERS + 1), *door;
    size_t i;
    json_array_foreach(doors, i, door) {
        if (!json_is_string(door) || json_string_length(door) >= DOCUMENT_DOOR) {
            document_problem(d, "doors", "must be texts of at most %d bytes", DOCUMENT_DOOR - 1);
            return;
        }
    }
}

int control_read(struct control *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, CONTROL_FORMAT, &out->from, &problems);
    out->version = (int)document_integer(&d, "version", 0, INT32_MAX);
    out->workers = document_integers(&d, "sizes", out->sizes, 0, SPEC_WORKERS);
    out->stop = document_flag(&d, "stop");
    out->pause = document_flag(&d, "pause");
    out->checkpoint = document_flag(&d, "checkpoint");
    if (document_has(&d, "lost")) { /* an older coordinator wrote none */
        out->n_lost = document_integers(&d, "lost", out->lost, 0, SPEC_WORKERS);
    }
    if (document_has(&d, "seats")) {
        document_integers(&d, "seats", out->seats, 0, SPEC_WORKERS);
    }
    if (document_has(&d, "silent")) {
        out->n_silent = document_integers(&d, "silent", out->silent, 0, SPEC_WORKERS);
    }
    if (document_has(&d, "doors")) {
        check_doors(&d);
    }
    return document_close(&d, "the control document", e);
}

json_t *control_doors(const json_t *j)
{
    return json_incref(json_object_get(j, "doors"));
}

bool control_door(const json_t *doors, int rank, char *out)
{
    const char *door = rank < 0 ? NULL : json_string_value(json_array_get(doors, (size_t)rank));
    if (!door || !door[0]) {
        return false;
    }
    snprintf(out, DOCUMENT_DOOR, "%s", door);
    return true;
}

static bool is_among(const int *ranks, int n, int rank)
{
    bool found = false;
    for (int i = 0; i < n; i++) {
        found = found || ranks[i] == rank;
    }
    return found;
}

bool control_has_lost(const struct control *c, int rank)
{
    return is_among(c->lost, c->n_lost, rank);
}

bool control_has_silent(const struct control *c, int rank)
{
    return is_among(c->silent, c->n_silent, rank);
}
