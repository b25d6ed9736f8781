/* `evenstep events`: the events that the page gets (docs/http-api.md, Events), a line each, until
 * Ctrl-C. With --json a line is an event's document.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"
#include "common/text/terminal.h"
#include "common/json/jsonx.h"
#include "common/text/text.h"

enum { LINE_BYTES = 16 << 20, WIDTH_USUAL = 100, SHOWN_BYTES = 4096 };

struct listening {
    bool json;
    struct buf line; /* the last line, which is not complete */
    bool gap;        /* the event whose data comes next is a gap */
};

/* The event for people: a job's state, a node's change, else its document. */
static void show_data(const json_t *event, char *out, size_t size)
{
    const json_t *data = json_object_get(event, "data");
    const char *state = jsonx_string_at(data, "state"), *from = jsonx_string_at(data, "from"),
               *change = jsonx_string_at(data, "change");
    if (*state) {
        snprintf(out, size, "%s: %s%s%s", jsonx_string_at(data, "name"), from, *from ? " → " : "",
                 state);
    } else if (*change) {
        snprintf(out, size, "%s %s", jsonx_string_at(data, "name"), change);
    } else {
        char *dumped = jsonx_dump(data, false, NULL);
        snprintf(out, size, "%s", dumped ? dumped : "");
        free(dumped);
    }
}

static void print_event(const struct listening *l, const char *text)
{
    char said[SHOWN_BYTES], line[SHOWN_BYTES + 200], shown[SHOWN_BYTES], cut[SHOWN_BYTES];
    struct err ignored = {0};
    int width = terminal_width(stdout);
    json_t *event = l->json ? NULL : jsonx_parse(text, strlen(text), &ignored);
    if (l->json) {
        text_print(stdout, text);
    } else {
        show_data(event, said, sizeof said);
        snprintf(line, sizeof line, "%-10s  %-16s  %s", jsonx_string_at(event, "type"),
                 jsonx_string_at(event, "job"), said);
        fputs(text_cut(cut, sizeof cut, text_shown(shown, sizeof shown, line),
                       width > 0 ? width : WIDTH_USUAL),
              stdout);
    }
    putchar('\n');
    fflush(stdout);
    json_decref(event);
}

/* Takes a line of the stream: it uses those with an event's data, and those that tell of lost
 * events. */
static void take_line(struct listening *l, const char *line)
{
    static const char data[] = "data: {\"job\"";
    l->gap = strcmp(line, "event: gap") == 0 || (l->gap && *line);
    if (strncmp(line, data, strlen(data)) == 0) {
        print_event(l, line + strlen("data: "));
    } else if (l->gap && strncmp(line, "data:", 5) == 0) {
        print_event(l, "{\"job\":\"\",\"type\":\"gap\",\"data\":{}}");
    }
}

static ssize_t take(void *ctx, const char *bytes, size_t n)
{
    struct listening *l = ctx;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            buf_add(&l->line, &bytes[i], 1);
            continue;
        }
        take_line(l, l->line.len > 0 && !l->line.failed ? l->line.data : "");
        buf_reset(&l->line);
    }
    return ferror(stdout) ? 0 : (ssize_t)n; /* if nothing can be written, the transfer ends */
}

/* Why the stream has ended: a token that is not valid any more, a service that is away, or nothing
 * that it says. */
static int why_ended(struct session *s)
{
    json_t *who = client_call(&s->client, "GET", "/api/v1/session", NULL, &s->err);
    if (who) {
        err_set(&s->err, ERR_UNAVAILABLE, "%s ended the stream of events", s->client.url);
    }
    json_decref(who);
    return -(int)s->err.code;
}

int command_events(struct session *s)
{
    struct listening l = {.json = s->json};
    char id[JOB_ID_BYTES];
    struct buf path;
    const char *word = session_argument(s, 0);
    int rc = word ? job_find(s, word, id) : 0;
    if (rc < 0) {
        return rc;
    }
    client_address(&path);
    buf_adds(&path, "/api/v1/events");
    client_add_param(&path, "job", word ? id : NULL);
    buf_init(&l.line, LINE_BYTES);
    FILE *stream = fopencookie(&l, "w", (cookie_io_functions_t){.write = take});
    if (stream) {
        setvbuf(stream, NULL, _IONBF, 0);
        rc = client_listen(&s->client, path.data, stream, &s->err);
        fclose(stream);
    }
    if (ferror(stdout)) {
        err_clear(&s->err);
        rc = 0; /* main.c reports it */
    } else if (!stream || rc == 0) {
        rc = why_ended(s);
    }
    buf_release(&l.line);
    buf_release(&path);
    return rc;
}
