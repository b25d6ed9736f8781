/* `evenstep datasets`: what is there, what is in one, uploads and deletes. */
#include <stdio.h>
#include <string.h>

#include "cli/service/bundle.h"
#include "cli/service/service.h"
#include "common/clock.h"
#include "common/json/jsonx.h"
#include "common/text/terminal.h"

#define ROUTE "/api/v1/datasets"
static const double shown_every_s = 0.2;

const struct opt datasets_options[] = {
    {"quiet", NULL, OPT_FLAG, NULL, 0, 0, "prints names alone, and no progress (-q)"},
    {0},
};

/* ---- what is there --------------------------------------------------------------------------- */

static void print_datasets(const json_t *answer)
{
    static const struct column columns[] = {
        {"path", "path", COLUMN_WHOLE},
        {"format", "format", COLUMN_TEXT},
        {"shape", "shape", COLUMN_TEXT},
        {"classes", "classes", COLUMN_COUNT},
        {"samples", "samples", COLUMN_COUNT},
        {"test", "test_samples", COLUMN_COUNT},
        COLUMNS_END,
    };
    columns_print(json_object_get(answer, "datasets"), columns, "", stdout);
}

static void print_names(const json_t *answer)
{
    columns_lines(json_object_get(answer, "datasets"), "path", "", stdout);
}

static void print_one(const json_t *answer)
{
    static const struct column columns[] = {
        {"class", "class", COLUMN_COUNT},
        {"name", "name", COLUMN_TEXT},
        {"samples", "samples", COLUMN_COUNT},
        COLUMNS_END,
    };
    const json_t *classes = json_object_get(answer, "classes");
    printf("%s: %s, %lld training samples%s\n", jsonx_string_at(answer, "path"),
           jsonx_string_at(answer, "format"),
           (long long)json_integer_value(json_object_get(answer, "samples")),
           json_array_size(classes) > 0 ? "" : ", targets that are not labels");
    if (json_array_size(classes) > 0) {
        columns_print(classes, columns, "", stdout);
    }
}

static int show(struct session *s, const char *name)
{
    struct buf path;
    client_address(&path);
    buf_adds(&path, ROUTE "/samples");
    client_add_param(&path, "path", name);
    int rc = session_show(s, "GET", path.data, print_one);
    buf_release(&path);
    if (rc < 0 && s->client.refusal == 404) {
        session_suggest(s, ROUTE, "datasets", "path", name);
    }
    return rc;
}

/* ---- upload ---------------------------------------------------------------------------------- */

struct sending {
    struct bundle bundle;
    int64_t sent;
    double shown; /* when progress was shown last */
    bool shows;   /* stderr is a terminal, and nobody asked for quiet */
};

static void show_progress(struct sending *up)
{
    double now = clock_now();
    bool all = up->sent == up->bundle.bytes;
    if (!up->shows || (!all && now - up->shown < shown_every_s)) {
        return;
    }
    up->shown = now;
    fprintf(stderr, "\r%.1f of %.1f MB sent%s\033[K", (double)up->sent / 1e6,
            (double)up->bundle.bytes / 1e6, all ? "; the service reads them" : "");
}

static int64_t give(void *ctx, char *to, size_t n, struct err *e)
{
    struct sending *up = ctx;
    int64_t got = bundle_read(&up->bundle, to, n, e);
    up->sent += got > 0 ? got : 0;
    show_progress(up);
    return got;
}

static int upload(struct session *s, const char *name, const char *from)
{
    struct buf path;
    struct sending up = {.shows = terminal_draws(stderr) && !opt_flag(s->options, "quiet")};
    json_t *answer = NULL;
    if (bundle_open(&up.bundle, from, &s->err) == 0) {
        struct client_body body = {.bytes = up.bundle.bytes, .read = give, .ctx = &up};
        client_address(&path);
        buf_adds(&path, ROUTE);
        client_add_param(&path, "name", name);
        answer = client_stream(&s->client, path.data, "application/x-tar", &body, &s->err);
        buf_release(&path);
        fputs(up.shown > 0 ? "\r\033[K" : "", stderr);
    }
    bundle_close(&up.bundle);
    return session_print(s, answer, print_one);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void print_deleted(const json_t *answer)
{
    columns_lines(json_object_get(answer, "deleted"), "", " deleted", stdout);
}

static int delete (struct session *s)
{
    int rc = session_delete_each(s, ROUTE, "deleted",
                                 "`evenstep datasets delete` needs a data set's name",
                                 "`evenstep datasets` lists them", print_deleted);
    if (rc < 0 && s->client.refusal == 404 && !session_argument(s, 2)) {
        session_suggest(s, ROUTE, "datasets", "path", session_argument(s, 1));
    }
    return rc;
}

int command_datasets(struct session *s)
{
    static const char *const actions[] = {"list", "show", "upload", "delete"};
    const char *action = session_argument(s, 0), *name = action ? session_argument(s, 1) : NULL,
               *from = name ? session_argument(s, 2) : NULL;
    if (!action || (strcmp(action, "list") == 0 && !name)) {
        return session_show(s, "GET", ROUTE,
                            opt_flag(s->options, "quiet") ? print_names : print_datasets);
    }
    if (name && session_check_text(s, name) < 0) {
        return -(int)s->err.code;
    }
    if (strcmp(action, "delete") == 0) {
        return delete (s);
    }
    if (strcmp(action, "show") == 0 && name && !from) {
        return show(s, name);
    }
    if (strcmp(action, "upload") == 0 && from && !session_argument(s, 3)) {
        return upload(s, name, from);
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const takes[] = {"no name", "one data set's name",
                                            "a name, and a folder or a tar archive"};
        if (strcmp(action, actions[i]) == 0) {
            return err_set(&s->err, ERR_INVALID, "`evenstep datasets %s` takes %s", action,
                           takes[i]);
        }
    }
    return session_no_action(s, "datasets", "data sets can be listed, shown, uploaded or deleted",
                             action, actions, 4);
}
