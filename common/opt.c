/* Options from one table: see opt.h. Each value is stored with the priority of its source. A list
 * comes entirely from the source with the highest priority that names it. */
#include "common/opt.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/buf.h"
#include "common/json/jsonx.h"
#include "common/process/proc.h"
#include "common/text/terminal.h"

/* The column where help starts, and the last one it may use. On a narrow terminal, help stands
 * below its option. */
enum { HELP_COLUMN = 37, HELP_MOST = 100, NARROW = 72, NARROW_COLUMN = 6 };

enum source { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_COMMAND_LINE };

struct value {
    enum source source;
    char **items; /* owned; one item unless it is a list */
    int count;
};

struct opt_values {
    const struct opt *table;
    struct value *values; /* one per table entry */
    char **positionals;
    int n_positionals;
};

static int find(const struct opt *table, const char *name, size_t n)
{
    for (int i = 0; table[i].name; i++) {
        if (strlen(table[i].name) == n && strncmp(table[i].name, name, n) == 0) {
            return i;
        }
    }
    return -1;
}

static void complain(struct buf *b, const char *fmt, const char *a, const char *c)
{
    if (b->len) {
        buf_adds(b, "; ");
    }
    buf_addf(b, fmt, a, c);
}

static char **push(char **list, int *n, const char *text)
{
    char **grown = realloc(list, sizeof *list * (size_t)(*n + 1));
    BUG_ON(!grown);
    grown[*n] = strdup(text);
    BUG_ON(!grown[*n]);
    (*n)++;
    return grown;
}

static void drop(struct value *v)
{
    for (int i = 0; i < v->count; i++) {
        free(v->items[i]);
    }
    free(v->items);
    v->items = NULL;
    v->count = 0;
}

static void check_number(const struct opt *o, const char *text, struct buf *bad)
{
    char *end, expected[120] = "a number";
    double x = strtod(text, &end);
    bool limited = o->max > o->min;
    if (end == text || *end || (o->kind == OPT_INT && x != (double)(long)x) ||
        (limited && (x < o->min || x > o->max))) {
        int n =
            snprintf(expected, sizeof expected, "a %snumber", o->kind == OPT_INT ? "whole " : "");
        if (limited) {
            snprintf(expected + n, sizeof expected - (size_t)n, " from %.10g to %.10g", o->min,
                     o->max);
        }
        complain(bad, "--%s: expected %s", o->name, expected);
    }
}

static void set(struct opt_values *v, int i, const char *text, enum source source, struct buf *bad)
{
    const struct opt *o = &v->table[i];
    struct value *value = &v->values[i];
    if (source < value->source) {
        return;
    }
    if (source > value->source || o->kind != OPT_LIST) {
        drop(value);
    }
    value->source = source;
    value->items = push(value->items, &value->count, text);
    if (o->kind == OPT_INT || o->kind == OPT_REAL) {
        check_number(o, text, bad);
    }
}

static void unknown(const struct opt *table, const char *name, struct buf *bad)
{
    const char *names[128];
    int n = 0;
    for (; table[n].name && n < 128; n++) {
        names[n] = table[n].name;
    }
    const char *near = jsonx_nearest(name, names, n);
    if (near) {
        complain(bad, "there is no option '--%s'; did you mean '--%s'?", name, near);
    } else {
        complain(bad, "there is no option '--%s'; %s", name, "--help lists those there are");
    }
}

static void read_command_line(struct opt_values *v, int argc, char **argv, const char **config,
                              struct buf *bad)
{
    bool only_positionals = false;
    for (int a = 0; a < argc; a++) {
        const char *arg = argv[a];
        if (only_positionals || strncmp(arg, "--", 2) != 0) {
            v->positionals = push(v->positionals, &v->n_positionals, arg);
            continue;
        }
        if (!arg[2]) {
            only_positionals = true;
            continue;
        }
        const char *name = arg + 2, *equals = strchr(name, '=');
        size_t n = equals ? (size_t)(equals - name) : strlen(name);
        int i = find(v->table, name, n);
        bool is_config = n == 6 && strncmp(name, "config", 6) == 0;
        if (i < 0 && !is_config) {
            char text[128];
            snprintf(text, sizeof text, "%.*s", (int)(n < 100 ? n : 100), name);
            unknown(v->table, text, bad);
            continue;
        }
        const char *text = equals ? equals + 1 : NULL;
        if (!text && i >= 0 && v->table[i].kind == OPT_FLAG) {
            text = "1";
        } else if (!text && a + 1 < argc) {
            text = argv[++a];
        } else if (!text) {
            complain(bad, "--%s needs a value%s", i >= 0 ? v->table[i].name : "config", "");
            continue;
        }
        if (i >= 0) {
            set(v, i, text, FROM_COMMAND_LINE, bad);
        } else {
            *config = text;
        }
    }
}

static void read_environment(struct opt_values *v, struct buf *bad)
{
    for (int i = 0; v->table[i].name; i++) {
        char name[80];
        int n = snprintf(name, sizeof name, "EVENSTEP_%s", v->table[i].name);
        for (int j = 0; j < n && j < (int)sizeof name; j++) {
            name[j] = name[j] == '-' ? '_' : (char)toupper((unsigned char)name[j]);
        }
        const char *text = getenv(name);
        if (!text || !*text) {
            continue;
        }
        if (v->table[i].kind != OPT_LIST) {
            set(v, i, text, FROM_ENVIRONMENT, bad);
            continue;
        }
        /* blanks separate the items of a list in the environment */
        char *copy = strdup(text), *rest = NULL;
        BUG_ON(!copy);
        for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            set(v, i, word, FROM_ENVIRONMENT, bad);
        }
        free(copy);
    }
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s)) {
        s++;
    }
    for (size_t n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--) {
        s[n - 1] = 0;
    }
    return s;
}

static void read_file(struct opt_values *v, const char *path, struct buf *bad)
{
    struct err e;
    char *text = proc_read_file(path, 1 << 20, NULL, &e);
    if (!text) {
        complain(bad, "%s%s", e.message, "");
        return;
    }
    int line = 0;
    for (char *p = text, *end; p; p = end) {
        end = strchr(p, '\n');
        if (end) {
            *end++ = 0;
        }
        line++;
        char *s = trim(p);
        if (!*s || *s == '#') {
            continue;
        }
        char place[300];
        char *equals = strchr(s, '=');
        if (!equals) {
            snprintf(place, sizeof place, "%s line %d", path, line);
            complain(bad, "%s: expected 'name = value'%s", place, "");
            continue;
        }
        *equals = 0;
        char *name = trim(s);
        int i = find(v->table, name, strlen(name));
        if (i < 0) {
            unknown(v->table, name, bad);
        } else {
            set(v, i, trim(equals + 1), FROM_FILE, bad);
        }
    }
    free(text);
}

struct opt_values *opt_parse(const struct opt *table, int argc, char **argv, struct err *e)
{
    int n = 0;
    while (table[n].name) {
        n++;
    }
    struct opt_values *v = calloc(1, sizeof *v);
    BUG_ON(!v);
    v->table = table;
    v->values = calloc((size_t)n + 1, sizeof *v->values);
    BUG_ON(!v->values);
    struct buf bad;
    buf_init(&bad, 4096);
    for (int i = 0; i < n; i++) {
        if (table[i].fallback) {
            set(v, i, table[i].fallback, FROM_DEFAULT, &bad);
        }
    }
    const char *config = getenv("EVENSTEP_CONFIG");
    read_command_line(v, argc, argv, &config, &bad);
    if (config && *config) {
        read_file(v, config, &bad);
    }
    read_environment(v, &bad);
    if (bad.len) {
        err_set(e, ERR_INVALID, "%s", bad.data);
        opt_free(v);
        v = NULL;
    }
    buf_release(&bad);
    return v;
}

void opt_free(struct opt_values *v)
{
    if (!v) {
        return;
    }
    for (int i = 0; v->table[i].name; i++) {
        drop(&v->values[i]);
    }
    free(v->values);
    for (int i = 0; i < v->n_positionals; i++) {
        free(v->positionals[i]);
    }
    free(v->positionals);
    free(v);
}

static const struct value *get(const struct opt_values *v, const char *name)
{
    int i = find(v->table, name, strlen(name));
    BUG_ON(i < 0);
    return &v->values[i];
}

const char *opt_string(const struct opt_values *v, const char *name)
{
    const struct value *value = get(v, name);
    return value->count ? value->items[value->count - 1] : NULL;
}

long opt_int(const struct opt_values *v, const char *name)
{
    const char *text = opt_string(v, name);
    return text ? strtol(text, NULL, 10) : 0;
}

double opt_real(const struct opt_values *v, const char *name)
{
    const char *text = opt_string(v, name);
    return text ? strtod(text, NULL) : 0;
}

bool opt_flag(const struct opt_values *v, const char *name)
{
    const char *text = opt_string(v, name);
    return text && *text && strcmp(text, "0") != 0 && strcmp(text, "false") != 0 &&
           strcmp(text, "no") != 0;
}

int opt_count(const struct opt_values *v, const char *name)
{
    return get(v, name)->count;
}

const char *opt_item(const struct opt_values *v, const char *name, int i)
{
    const struct value *value = get(v, name);
    return i >= 0 && i < value->count ? value->items[i] : NULL;
}

int opt_positionals(const struct opt_values *v)
{
    return v->n_positionals;
}

const char *opt_positional(const struct opt_values *v, int i)
{
    return i >= 0 && i < v->n_positionals ? v->positionals[i] : NULL;
}

bool opt_given(const struct opt_values *v, const char *name)
{
    return get(v, name)->source > FROM_DEFAULT;
}

int opt_first_positional(const struct opt *table, int argc, char **argv)
{
    for (int a = 0; a < argc; a++) {
        const char *name = argv[a] + 2;
        if (strncmp(argv[a], "--", 2) != 0) {
            return a;
        }
        if (!*name) {
            return a + 1;
        }
        int i = find(table, name, strlen(name)); /* not found: `--name=value` */
        bool has_value = i >= 0 ? table[i].kind != OPT_FLAG : strcmp(name, "config") == 0;
        a += has_value ? 1 : 0;
    }
    return argc;
}

static void print_option(const struct opt *o, int width, FILE *out)
{
    char first[64], text[1024];
    int indent = width < NARROW ? NARROW_COLUMN : HELP_COLUMN;
    int n = snprintf(first, sizeof first, "  --%s%s%s", o->name, o->metavar ? " " : "",
                     o->metavar ? o->metavar : "");
    if (n >= indent) {
        fprintf(out, "%s\n", first);
        n = 0;
    }
    snprintf(first + n, sizeof first - (size_t)n, "%*s", indent - n, "");
    snprintf(text, sizeof text, "%s%s%s%s%s", o->help, o->fallback ? " (default: " : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "",
             o->kind == OPT_LIST ? " (may be repeated)" : "");
    text_fill(out, width, first, indent, text);
}

static void opt_help(const struct opt *table, const char *usage, FILE *out)
{
    int width = terminal_width(out);
    width = width == 0 || width > HELP_MOST ? HELP_MOST : width;
    fprintf(out, "usage: %s\n\n", usage);
    for (; table->name; table++) {
        print_option(table, width, out);
    }
    fputc('\n', out);
    text_fill(out, width, "", 0,
              "Every option is also EVENSTEP_NAME in the environment and 'name = value' in the "
              "file that --config FILE names.");
}

int opt_begin(const struct opt *table, const char *usage, int argc, char **argv,
              struct opt_values **v, struct err *e)
{
    *v = opt_parse(table, argc, argv, e);
    if (!*v) {
        return -ERR_INVALID;
    }
    if (!opt_flag(*v, "help")) {
        return OPT_TO_DO;
    }
    opt_help(table, usage, stdout);
    opt_free(*v);
    *v = NULL;
    return OPT_HELPED;
}
