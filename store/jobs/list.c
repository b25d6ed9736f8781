/* Lists of jobs, a page at a time. A list first walks indexes of ids, and reads only those fields
 * of a job that the query compares (match.h). It reads whole jobs only for the page asked for.
 * Where the order is that of the index (-created, created), it reads no more than the page needs.
 * Other orders read all and sort.
 */
#include "store/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"
#include "common/text/words.h"
#include "store/jobs/match.h"

enum { LIST_CHUNK = 500, LIST_ALL = 100000, LIST_LIMIT = 500, LIST_BYTES = 1 << 30 };

/* ---- orders ---------------------------------------------------------------------------------- */

struct order {
    bool indexed;     /* sorted by number, which is the order of the index; else by `path` */
    bool falls;       /* the greatest first */
    const char *path; /* borrowed */
};

static int order_of(struct order *o, const char *name, struct err *e)
{
    name = name && name[0] ? name : "-created";
    o->falls = name[0] == '-';
    o->path = name + o->falls;
    o->indexed = !strcmp(o->path, "created");
    if (!strcmp(o->path, "priority")) {
        o->falls = !o->falls;
    }
    char root[FILTER_PATH];
    snprintf(root, sizeof root, "%.*s", (int)strcspn(o->path, "."), o->path);
    if (!filter_is_path(o->path) || (jobview_kind(root) == JOBVIEW_LIVE && !strchr(o->path, '.'))) {
        return err_set(e, ERR_INVALID,
                       "jobs are sorted by created, priority, name or a path such as "
                       "metrics.test_accuracy, not by '%.40s'",
                       name);
    }
    return 0;
}

static int by_number(const struct entry *a, const struct entry *b)
{
    return (a->number > b->number) - (a->number < b->number);
}

/* Jobs without a value come last in both directions. */
static int compare(const void *a, const void *b, void *ctx)
{
    const struct entry *x = a, *y = b;
    const struct order *o = ctx;
    if (o->indexed) {
        return o->falls ? by_number(y, x) : by_number(x, y);
    }
    bool none = x->key.kind == VALUE_NONE;
    if (none != (y->key.kind == VALUE_NONE)) {
        return none ? 1 : -1;
    }
    int c = none ? 0 : filter_compare(&x->key, &y->key);
    c = o->falls ? -c : c;
    return c ? c : by_number(x, y);
}

/* ---- cursors --------------------------------------------------------------------------------- */

/* A cursor is the "NUMBER" of the last job on the page before. Where the order is not the index's,
 * it has the job's value too: "NUMBER.n0.985", "NUMBER.tHEX-OF-TEXT", or "NUMBER.-" without a
 * value. */
static void cursor_print(char *out, size_t n, const struct entry *at, const struct order *o)
{
    int len = snprintf(out, n, "%" PRId64, at->number);
    if (o->indexed) {
        return;
    }
    if (at->key.kind == VALUE_NUMBER) {
        snprintf(out + len, n - (size_t)len, ".n%.17g", at->key.number);
        return;
    }
    len += snprintf(out + len, n - (size_t)len, at->key.kind == VALUE_TEXT ? ".t" : ".-");
    for (const char *c = at->key.text; at->key.kind == VALUE_TEXT && *c; c++) {
        len += snprintf(out + len, n - (size_t)len, "%02x", (unsigned char)*c);
    }
}

static int hex_digit(char c)
{
    const char *at = c ? strchr("0123456789abcdef", c) : NULL;
    return at ? (int)(at - "0123456789abcdef") : -1;
}

static bool text_parse(const char *hex, char out[FILTER_TEXT])
{
    size_t n = 0;
    for (; hex[0] && n + 1 < FILTER_TEXT; hex += 2, n++) {
        int hi = hex_digit(hex[0]), lo = hi < 0 ? -1 : hex_digit(hex[1]);
        if (lo < 0) {
            return false;
        }
        out[n] = (char)(hi * 16 + lo);
    }
    out[n] = '\0';
    return !hex[0];
}

/* Parses what follows the number. */
static bool key_parse(const char *text, struct filter_value *key)
{
    char *end = NULL;
    if (text[0] != '.') {
        return false;
    }
    switch (text[1]) {
    case 'n':
        key->kind = VALUE_NUMBER;
        key->number = strtod(text + 2, &end);
        return end != text + 2 && !*end && isfinite(key->number);
    case 't':
        key->kind = VALUE_TEXT;
        return text_parse(text + 2, key->text);
    default:
        key->kind = VALUE_NONE;
        return !strcmp(text, ".-");
    }
}

static int cursor_parse(const char *text, struct entry *at, const struct order *o, struct err *e)
{
    char *end = NULL;
    memset(at, 0, sizeof *at);
    errno = 0;
    at->number = strtoll(text, &end, 10);
    bool good = end != text && !errno && at->number >= 0;
    good = good && (o->indexed ? !*end : key_parse(end, &at->key));
    return good ? 0 : err_set(e, ERR_INVALID, "the cursor '%.60s' is not one of this list", text);
}

/* ---- entries --------------------------------------------------------------------------------- */

struct entries {
    struct entry *items; /* owned */
    int count, size;
};

/* Makes room for n more. */
static int grow(struct entries *all, int n, struct err *e)
{
    if (all->count + n > all->size) {
        int size = all->count + n < 32 ? 64 : 2 * (all->count + n);
        struct entry *more = realloc(all->items, (size_t)size * sizeof *more);
        if (!more) {
            return err_set(e, ERR_MEMORY, "cannot list the jobs: memory ran out");
        }
        all->items = more;
        all->size = size;
    }
    return 0;
}

/* What a list asks for. */
struct asked {
    struct order order;
    struct match match;
    char bound[32]; /* bound of the number, where the order is the index's */
    int want;       /* how many jobs of each index */
};

/* Reads the next `step` ids of an index after those that it has. Returns how many, or negative. */
static int read_ids(struct store *s, const char *index, const struct asked *a, const char *bound,
                    int step, struct entries *all, struct err *e)
{
    bool falls = a->order.indexed && a->order.falls;
    redisReply *r = store_commandf(s, e, "%s %s (%s %s WITHSCORES LIMIT 0 %d",
                                   falls ? "ZREVRANGEBYSCORE" : "ZRANGEBYSCORE", index, bound,
                                   falls ? "-inf" : "+inf", step);
    int n = r ? reply_array(r, 0, e) : store_failed(e);
    int rc = n < 0 ? n : grow(all, n / 2, e);
    for (int i = 0; rc == 0 && i + 1 < n; i += 2) {
        const char *id = "", *score = "";
        rc = reply_text(r->element[i], &id, NULL, e) > 0 &&
                     reply_text(r->element[i + 1], &score, NULL, e) > 0
                 ? 0
                 : store_failed(e);
        struct entry *at = &all->items[all->count++];
        memset(at, 0, sizeof *at);
        snprintf(at->id, sizeof at->id, "%s", id);
        at->number = (int64_t)strtod(score, NULL);
    }
    freeReplyObject(r);
    return rc < 0 ? rc : n / 2;
}

/* Collects entries of an index that match the query, until there are `want`. */
static int collect(struct store *s, const char *index, const struct asked *a, struct entries *all,
                   struct err *e)
{
    char bound[32];
    int first = all->count, step = a->want < LIST_CHUNK ? a->want : LIST_CHUNK;
    snprintf(bound, sizeof bound, "%s", a->bound);
    for (;;) {
        int before = all->count, n = read_ids(s, index, a, bound, step, all, e);
        if (n <= 0) {
            return n;
        }
        snprintf(bound, sizeof bound, "%" PRId64, all->items[all->count - 1].number);
        int kept = match_keep(s, &a->match, all->items + before, n, e);
        if (kept < 0) {
            return kept;
        }
        all->count = before + kept;
        if (all->count - first >= a->want || n < step) {
            return 0;
        }
        step = LIST_CHUNK;
    }
}

/* Collects entries of all these states ("a,b"; NULL: of every job). */
static int collect_states(struct store *s, const char *states, const struct asked *a,
                          struct entries *all, struct err *e)
{
    char index[STORE_KEY], state[32];
    int rc = 0;
    if (!states || !states[0]) {
        return collect(s, key_text(KEY_JOBS), a, all, e);
    }
    while (rc >= 0 && words_next(&states, state, sizeof state)) {
        if (jobstate_find(state) < 0) {
            return err_set(e, ERR_INVALID, "there is no state '%.30s' of a job", state);
        }
        key_named(index, KEY_STATE, state, NULL);
        rc = collect(s, index, a, all, e);
    }
    return rc;
}

/* Sorts all entries and moves those after the cursor to the front. */
static void sort(struct entries *all, const struct order *o, const struct entry *after)
{
    int first = 0;
    if (all->count) {
        qsort_r(all->items, (size_t)all->count, sizeof *all->items, compare, (void *)(uintptr_t)o);
    }
    while (after && first < all->count &&
           compare(&all->items[first], after, (void *)(uintptr_t)o) <= 0) {
        first++;
    }
    if (first) {
        all->count -= first;
        memmove(all->items, all->items + first, (size_t)all->count * sizeof *all->items);
    }
}

/* ---- a page ---------------------------------------------------------------------------------- */

static char *page(struct store *s, const struct entries *all, const struct job_query *query,
                  const struct order *o, size_t *len, struct err *e)
{
    const char *ids[LIST_LIMIT];
    char next[2 * FILTER_TEXT + 64];
    struct buf out;
    int n = all->count < query->limit ? all->count : query->limit;
    for (int i = 0; i < n; i++) {
        ids[i] = all->items[i].id;
    }
    buf_init(&out, LIST_BYTES);
    buf_adds(&out, "{\"jobs\":[");
    int rc = jobview_append(s, n, ids, query->fields, &out, e);
    if (all->count > n) {
        cursor_print(next, sizeof next, &all->items[n - 1], o);
        buf_addf(&out, "],\"next\":\"%s\"}", next);
    } else {
        buf_adds(&out, "],\"next\":null}");
    }
    char *text = rc < 0 ? NULL : buf_take(&out, len);
    if (rc >= 0 && !text) {
        err_set(e, ERR_MEMORY, "cannot list the jobs: memory ran out");
    }
    buf_release(&out);
    return text;
}

char *store_job_page(struct store *s, const struct job_query *given, size_t *len, struct err *e)
{
    struct job_query query = *given;
    struct entries all = {0};
    struct entry after;
    struct asked a = {.bound = "-inf"};
    char *out = NULL;
    bool goes_on = query.cursor && query.cursor[0];
    query.limit = query.limit < 1 ? 50 : query.limit > LIST_LIMIT ? LIST_LIMIT : query.limit;
    if (order_of(&a.order, query.sort, e) < 0 ||
        (goes_on && cursor_parse(query.cursor, &after, &a.order, e) < 0)) {
        return NULL;
    }
    bool indexed = a.order.indexed;
    match_init(&a.match, &query, indexed ? NULL : a.order.path);
    a.want = indexed ? query.limit + 1 : LIST_ALL;
    if (indexed && goes_on) {
        snprintf(a.bound, sizeof a.bound, "%" PRId64, after.number);
    } else if (indexed && a.order.falls) {
        snprintf(a.bound, sizeof a.bound, "+inf");
    }
    if (collect_states(s, query.states, &a, &all, e) == 0) {
        sort(&all, &a.order, goes_on && !indexed ? &after : NULL);
        out = page(s, &all, &query, &a.order, len, e);
    }
    free(all.items);
    return out;
}

json_t *store_job_list(struct store *s, const char *states, const char *q, const char *sort,
                       const char *cursor, int limit, struct err *e)
{
    const struct job_query query = {
        .states = states, .q = q, .sort = sort, .cursor = cursor, .limit = limit};
    size_t len = 0;
    char *text = store_job_page(s, &query, &len, e);
    json_t *list = text ? jsonx_parse(text, len, e) : NULL;
    free(text);
    return list;
}

json_t *store_jobs_of(struct store *s, const json_t *ids, const char *fields, struct err *e)
{
    const char *names[LIST_LIMIT];
    struct buf out;
    size_t n = json_array_size(ids), i, len = 0;
    json_t *id, *list = NULL;
    if (n > LIST_LIMIT) {
        err_set(e, ERR_INVALID, "%zu jobs are more than %d", n, (int)LIST_LIMIT);
        return NULL;
    }
    json_array_foreach((json_t *)ids, i, id) {
        names[i] = json_string_value(id);
    }
    buf_init(&out, LIST_BYTES);
    buf_adds(&out, "[");
    int rc = jobview_append(s, (int)n, names, fields, &out, e);
    buf_adds(&out, "]");
    char *text = rc < 0 ? NULL : buf_take(&out, &len);
    if (rc >= 0) {
        list = text ? jsonx_parse(text, len, e) : NULL;
    }
    free(text);
    buf_release(&out);
    return list;
}
