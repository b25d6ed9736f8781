/* See choices.h. */
#include "cli/choices.h"

#include <string.h>

#include "common/json/jsonx.h"
#include "common/text/buf.h"
#include "job/spec/catalog.h"
#include "job/state.h"

#define X(id, name) name,
static const char *const states[] = {JOB_STATES(X)};
#undef X
static const char *const roles[] = {"viewer", "operator", "programs", "admin"};
static const char *const axes[] = {"step", "samples", "time"};
static const char *const groups[] = {"owner", "job", "day"};
static const char *const scopes[] = {"own", "all"};

#define ALL(list) list, (int)(sizeof list / sizeof *list)
static const struct choices {
    const char *metavar;
    const char *const *values;
    int n;
} all[] = {{"STATES", ALL(states)}, {"STATE", ALL(states)}, {"ROLE", ALL(roles)},
           {"AXIS", ALL(axes)},     {"GROUP", ALL(groups)}, {"SCOPE", ALL(scopes)}};

const char *const *choices_of(const char *metavar, int *n)
{
    if (strcmp(metavar, "STRATEGY") == 0) {
        return catalog_names(CATALOG_STRATEGY, n);
    }
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (strcmp(metavar, all[i].metavar) == 0) {
            *n = all[i].n;
            return all[i].values;
        }
    }
    *n = 0;
    return NULL;
}

static bool is_there(const char *value, size_t length, const char *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        if (strlen(values[i]) == length && strncmp(values[i], value, length) == 0) {
            return true;
        }
    }
    return false;
}

/* "--by: there is no 'nope'; expected owner, job or day" */
static int refuse(const struct opt *o, const char *value, size_t length, const char *const *values,
                  int n, struct err *e)
{
    char given[48];
    struct buf list;
    buf_init(&list, 1024);
    for (int i = 0; i < n; i++) {
        buf_addf(&list, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", values[i]);
    }
    snprintf(given, sizeof given, "%.*s", (int)(length < 40 ? length : 40), value);
    const char *nearest = jsonx_nearest(given, values, n);
    err_set(e, ERR_INVALID, "--%s: there is no '%s'; expected %s", o->name, given, list.data);
    if (nearest) {
        err_hint(e, "did you mean '%s'?", nearest);
    }
    buf_release(&list);
    return -ERR_INVALID;
}

static int check(const struct opt *o, const char *value, const char *const *values, int n,
                 struct err *e)
{
    bool several = o->metavar[strlen(o->metavar) - 1] == 'S';
    do {
        size_t length = several ? strcspn(value, ",") : strlen(value);
        if (!is_there(value, length, values, n)) {
            return refuse(o, value, length, values, n, e);
        }
        value += length;
    } while (*value++ == ',');
    return 0;
}

int choices_check(const struct opt *table, const struct opt_values *v, struct err *e)
{
    for (const struct opt *o = table; o->name; o++) {
        int n = 0;
        const char *const *values = o->metavar ? choices_of(o->metavar, &n) : NULL;
        for (int i = 0; values && i < opt_count(v, o->name); i++) {
            if (check(o, opt_item(v, o->name, i), values, n, e) < 0) {
                return -ERR_INVALID;
            }
        }
    }
    return 0;
}
