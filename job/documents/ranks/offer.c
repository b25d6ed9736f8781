/* See offer.h. */
#include "job/documents/ranks/offer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *offer_json(const struct offer *o)
{
    json_t *j = json_pack("{s:i}", "format", OFFER_FORMAT);
    if (o->error[0]) {
        json_object_set_new(j, "error", jsonx_text(o->error));
    }
    if (!o->digest[0]) {
        return j;
    }
    json_t *files = json_array();
    for (int i = 0; i < o->n_files; i++) {
        json_array_append_new(files, json_pack("{s:s, s:I}", "name", o->files[i].name, "bytes",
                                               (json_int_t)o->files[i].bytes));
    }
    json_object_set_new(j, "digest", json_string(o->digest));
    json_object_set_new(j, "key", json_string(o->key));
    json_object_set_new(j, "bytes", json_integer((json_int_t)o->bytes));
    json_object_set_new(j, "files", files);
    return j;
}

static void read_files(const struct document *d, struct offer *o)
{
    size_t n = json_array_size(document_list(d, "files", 0, OFFER_FILES));
    char name[OFFER_NAME];
    o->files = calloc(n + 1, sizeof *o->files);
    BUG_ON(!o->files);
    o->n_files = o->room = (int)n;
    for (size_t i = 0; i < n; i++) {
        struct document file = document_element(d, "files", i);
        name[0] = '\0';
        document_text(&file, "name", name, sizeof name);
        o->files[i].name = strdup(name);
        BUG_ON(!o->files[i].name);
        o->files[i].bytes = document_integer(&file, "bytes", 0, INT64_MAX);
    }
}

int offer_read(struct offer *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, OFFER_FORMAT, NULL, &problems);
    if (document_has(&d, "error")) {
        document_text(&d, "error", out->error, sizeof out->error);
    }
    if (document_has(&d, "digest")) {
        document_text(&d, "digest", out->digest, sizeof out->digest);
        document_text(&d, "key", out->key, sizeof out->key);
        out->bytes = document_integer(&d, "bytes", 0, INT64_MAX);
        read_files(&d, out);
    }
    return document_close(&d, "the keeper's offer of its data set", e);
}

void offer_release(struct offer *o)
{
    for (int i = 0; i < o->n_files; i++) {
        free(o->files[i].name);
    }
    free(o->files);
    memset(o, 0, sizeof *o);
}

int offer_add(struct offer *o, const char *name, int64_t bytes, struct err *e)
{
    if (o->n_files == OFFER_FILES) {
        return err_set(e, ERR_TOO_LARGE, "a data set of more than %d files is not sent",
                       OFFER_FILES);
    }
    if (strlen(name) >= OFFER_NAME) {
        return err_set(e, ERR_TOO_LARGE, "the name '%.80s…' is too long to be sent", name);
    }
    if (o->n_files == o->room) {
        int room = o->room ? 2 * o->room : 64;
        struct offer_file *more = realloc(o->files, (size_t)room * sizeof *more);
        o->files = more ? more : o->files;
        o->room = more ? room : o->room;
    }
    char *own = o->n_files < o->room ? strdup(name) : NULL;
    if (!own) {
        return err_set(e, ERR_MEMORY, "cannot list a data set: memory ran out");
    }
    o->files[o->n_files++] = (struct offer_file){own, bytes};
    o->bytes += bytes;
    return 0;
}
