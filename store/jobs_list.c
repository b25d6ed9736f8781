/* Lists of jobs, a page at a time. A list walks indexes of light entries (name, priority, number)
 * first, and reads whole jobs only for the page that is asked for. Where the order is that of the
 * index (-created, created) no more entries are read than the page needs; the other orders read all
 * and sort.
 */
#include "store/internal.h"
#include "store/lua.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LIST_CHUNK = 500, LIST_ALL = 100000, LIST_LIMIT = 500 };

struct entry {
    char id[40], name[128];
    int64_t priority, number;
};

struct entries {
    struct entry *items; /* owned */
    int count, size;
};

static struct script list_script = {.text = LUA_JOB_LIST};

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

static int append(struct entries *all, const struct entries *more, struct err *e)
{
    int rc = grow(all, more->count, e);
    if (rc == 0 && more->count) {
        memcpy(all->items + all->count, more->items, (size_t)more->count * sizeof *more->items);
        all->count += more->count;
    }
    return rc;
}

static int add_entry(struct entries *all, redisReply *const *four, struct err *e)
{
    const char *text[4];
    for (int i = 0; i < 4; i++) {
        if (reply_text(four[i], &text[i], NULL, e) <= 0) {
            return -ERR_DATA;
        }
    }
    int rc = grow(all, 1, e);
    if (rc < 0) {
        return rc;
    }
    struct entry *at = &all->items[all->count++];
    snprintf(at->id, sizeof at->id, "%s", text[0]);
    snprintf(at->name, sizeof at->name, "%s", text[1]);
    at->priority = strtoll(text[2], NULL, 10);
    at->number = strtoll(text[3], NULL, 10);
    return 0;
}

static bool matches(const struct entry *at, const char *q)
{
    return !q || !q[0] || strcasestr(at->name, q) || !strncmp(at->id, q, strlen(q));
}

/* Entries of an index beyond `bound` that match, until there are `want`. */
static int collect(struct store *s, const char *index, bool rev, const char *bound, const char *q,
                   int want, struct entries *all, struct err *e)
{
    char at[32], chunk[16], prefix[STORE_KEY];
    key_prefix(prefix, KEY_JOB);
    int step = q || want > LIST_CHUNK ? LIST_CHUNK : want;
    snprintf(at, sizeof at, "%s", bound);
    snprintf(chunk, sizeof chunk, "%d", step);
    for (;;) {
        const char *args[] = {rev ? "1" : "0", at, chunk, prefix};
        redisReply *r = store_script(s, &list_script, 1, &index, 4, args, NULL, e);
        int n = r ? reply_array(r, 4, e) : -1, rc = n < 0 ? -1 : 0;
        for (int i = 0; !rc && i + 3 < n; i += 4) {
            rc = add_entry(all, r->element + i, e);
            if (!rc) {
                const struct entry *last = &all->items[all->count - 1];
                snprintf(at, sizeof at, "%lld", (long long)last->number);
                all->count -= !matches(last, q);
            }
        }
        if (r) {
            freeReplyObject(r);
        }
        if (rc < 0) {
            return store_failed(e);
        }
        if (all->count >= want || n / 4 < step) {
            return 0;
        }
    }
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int c = strcasecmp(x->name, y->name);
    c = c ? c : strcmp(x->name, y->name);
    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static int by_priority(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->priority != y->priority) {
        return x->priority > y->priority ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

/* A cursor is "NUMBER", "NUMBER.PRIORITY" or "NUMBER.HEX-OF-NAME" of the last job on the page
 * before. */
static void cursor_print(char *out, size_t n, const struct entry *at, const char *sort)
{
    int len = snprintf(out, n, "%lld", (long long)at->number);
    if (!strcmp(sort, "priority")) {
        snprintf(out + len, n - (size_t)len, ".%lld", (long long)at->priority);
    } else if (!strcmp(sort, "name")) {
        len += snprintf(out + len, n - (size_t)len, ".");
        for (const char *c = at->name; *c; c++) {
            len += snprintf(out + len, n - (size_t)len, "%02x", (unsigned char)*c);
        }
    }
}

static int hex_digit(char c)
{
    const char *at = c ? strchr("0123456789abcdef", c) : NULL;
    return at ? (int)(at - "0123456789abcdef") : -1;
}

static int cursor_parse(const char *text, struct entry *at, const char *sort, struct err *e)
{
    char *end = NULL;
    memset(at, 0, sizeof *at);
    errno = 0;
    at->number = strtoll(text, &end, 10);
    bool good = end != text && !errno && at->number >= 0;
    if (good && !strcmp(sort, "priority")) {
        good = *end == '.' && isdigit((unsigned char)end[end[1] == '-' ? 2 : 1]);
        at->priority = good ? strtoll(end + 1, &end, 10) : 0;
    } else if (good && !strcmp(sort, "name")) {
        good = *end++ == '.';
        for (size_t i = 0; good && *end && i + 1 < sizeof at->name; i++, end += 2) {
            int hi = hex_digit(end[0]), lo = hi < 0 ? -1 : hex_digit(end[1]);
            good = lo >= 0;
            at->name[i] = good ? (char)(hi * 16 + lo) : 0;
        }
    }
    return good && !*end
               ? 0
               : err_set(e, ERR_INVALID, "the cursor '%.60s' is not one of this list", text);
}

/* Sorts everything there is and moves what follows the cursor to the front. */
static void order(struct entries *all, int (*compare)(const void *, const void *),
                  const struct entry *after)
{
    if (all->count) {
        qsort(all->items, (size_t)all->count, sizeof *all->items, compare);
    }
    int first = 0;
    while (after && first < all->count && compare(&all->items[first], after) <= 0) {
        first++;
    }
    if (first) {
        all->count -= first;
        memmove(all->items, all->items + first, (size_t)all->count * sizeof *all->items);
    }
}

static json_t *page(struct store *s, const struct entries *all, int limit, const char *sort,
                    struct err *e)
{
    const char *ids[LIST_LIMIT];
    int n = all->count < limit ? all->count : limit;
    for (int i = 0; i < n; i++) {
        ids[i] = all->items[i].id;
    }
    json_t *jobs = jobview_read(s, n, ids, e);
    if (!jobs) {
        return NULL;
    }
    char next[320];
    if (all->count > limit) {
        cursor_print(next, sizeof next, &all->items[limit - 1], sort);
    }
    return json_pack("{s:o, s:o}", "jobs", jobs, "next",
                     all->count > limit ? json_string(next) : json_null());
}

static int by_number(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_number_falling(const void *a, const void *b)
{
    return by_number(b, a);
}

/* Orders of a list; "-created" is the usual one. */
struct order {
    const char *name;
    bool whole; /* everything is read and sorted; else the index has the order */
    bool falls; /* the index is read from its end */
    int (*compare)(const void *, const void *);
};

static const struct order *order_of(const char *name, struct err *e)
{
    static const struct order orders[] = {{"-created", false, true, by_number_falling},
                                          {"created", false, false, by_number},
                                          {"priority", true, false, by_priority},
                                          {"name", true, false, by_name}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (!name || !name[0] || !strcmp(name, orders[i].name)) {
            return &orders[i];
        }
    }
    err_set(e, ERR_INVALID,
            "jobs are sorted by created, -created, priority or name, not by '%.40s'", name);
    return NULL;
}

/* What a page of a list is made of. */
struct asked {
    const struct order *order;
    const char *q, *bound; /* q: NULL for every name */
    int want;              /* jobs of each index */
};

/* The entries of all states ("a,b"; NULL: of every job) beyond the bound. */
static int collect_states(struct store *s, const char *states, const struct asked *a,
                          struct entries *all, struct err *e)
{
    char index[STORE_KEY], state[32];
    int rc = 0;
    if (!states || !states[0]) {
        snprintf(index, sizeof index, "%s", key_text(KEY_JOBS));
        return collect(s, index, a->order->falls, a->bound, a->q, a->want, all, e);
    }
    for (const char *at = states; rc >= 0 && *at; at += strcspn(at, ","), at += *at == ',') {
        struct entries of_state = {0};
        snprintf(state, sizeof state, "%.*s", (int)strcspn(at, ","), at);
        if (jobstate_find(state) < 0) {
            return err_set(e, ERR_INVALID, "there is no state '%.30s' of a job", state);
        }
        key_named(index, KEY_STATE, state, NULL);
        rc = collect(s, index, a->order->falls, a->bound, a->q, a->want, &of_state, e);
        if (rc >= 0) {
            rc = append(all, &of_state, e);
        }
        free(of_state.items);
    }
    return rc;
}

json_t *store_job_list(struct store *s, const char *states, const char *q, const char *sort,
                       const char *cursor, int limit, struct err *e)
{
    char bound[32];
    struct entries all = {0};
    struct entry after;
    json_t *out = NULL;
    const struct order *o = order_of(sort, e);
    cursor = cursor && cursor[0] ? cursor : NULL;
    limit = limit < 1 ? 50 : limit > LIST_LIMIT ? LIST_LIMIT : limit;
    if (!o || (cursor && cursor_parse(cursor, &after, o->name, e) < 0)) {
        return NULL;
    }
    snprintf(bound, sizeof bound, "%s", o->falls ? "+inf" : "-inf");
    if (cursor && !o->whole) {
        snprintf(bound, sizeof bound, "%lld", (long long)after.number);
    }
    const struct asked a = {o, q && q[0] ? q : NULL, bound, o->whole ? LIST_ALL : limit + 1};
    if (collect_states(s, states, &a, &all, e) == 0) {
        order(&all, o->compare, cursor && o->whole ? &after : NULL);
        out = page(s, &all, limit, o->name, e);
    }
    free(all.items);
    return out;
}
