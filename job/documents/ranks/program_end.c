/* See program_end.h. */
#include "job/documents/ranks/program_end.h"

#include <stdio.h>
#include <string.h>

static json_t *text_or_null(const char *text)
{
    return text[0] ? jsonx_text(text) : json_null();
}

json_t *program_end_json(const struct program_end *end)
{
    if (!end->there) {
        return json_null();
    }
    json_t *exit_code = end->exit_code >= 0 ? json_integer(end->exit_code) : json_null(),
           *line = end->line > 0 ? json_integer(end->line) : json_null(),
           *every = end->step > 0 ? json_pack("{s:I, s:I}", "epoch", (json_int_t)end->epoch, "step",
                                              (json_int_t)end->step)
                                  : json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "exit_code", exit_code, "signal",
                     text_or_null(end->signal), "exception", text_or_null(end->exception), "file",
                     text_or_null(end->file), "line", line, "reason", text_or_null(end->reason),
                     "last_line", text_or_null(end->last_line), "every_rank", every);
}

static int64_t number_at(const struct document *d, const char *key, int64_t none, int64_t most)
{
    return document_has(d, key) ? document_integer(d, key, 0, most) : none;
}

static void text_at(const struct document *d, const char *key, char *out, size_t bytes)
{
    out[0] = '\0';
    if (document_has(d, key)) {
        document_sentence(d, key, out, bytes);
    }
}

void program_end_parse(const struct document *d, struct program_end *out)
{
    memset(out, 0, sizeof *out);
    if (!document_has(d, "program")) {
        return;
    }
    struct document end = document_within(d, "program");
    out->there = true;
    out->exit_code = (int)number_at(&end, "exit_code", -1, INT32_MAX);
    text_at(&end, "signal", out->signal, sizeof out->signal);
    text_at(&end, "exception", out->exception, sizeof out->exception);
    text_at(&end, "file", out->file, sizeof out->file);
    out->line = (int)number_at(&end, "line", 0, INT32_MAX);
    text_at(&end, "reason", out->reason, sizeof out->reason);
    text_at(&end, "last_line", out->last_line, sizeof out->last_line);
    if (document_has(&end, "every_rank")) {
        struct document every = document_within(&end, "every_rank");
        out->epoch = document_integer(&every, "epoch", 1, INT64_MAX);
        out->step = document_integer(&every, "step", 1, INT64_MAX);
    }
}

const char *program_end_said(const struct program_end *end, char *out, size_t bytes)
{
    if (!end->reason[0] && end->exception[0] && end->line > 0) {
        snprintf(out, bytes, "%s (%s, line %d)", end->exception, end->file, end->line);
    } else {
        snprintf(out, bytes, "%s",
                 end->reason[0]      ? end->reason
                 : end->exception[0] ? end->exception
                                     : end->last_line);
    }
    return out;
}

bool program_end_same(const struct program_end *a, const struct program_end *b)
{
    return a->there && b->there && a->exit_code == b->exit_code &&
           strcmp(a->signal, b->signal) == 0 && strcmp(a->exception, b->exception) == 0 &&
           strcmp(a->file, b->file) == 0 && a->line == b->line &&
           strcmp(a->reason, b->reason) == 0 && a->epoch == b->epoch && a->step == b->step;
}
