/* `evenstep catalog`: everything that a job can name, with its parameters. */
#include <stdio.h>

#include "cli/service/service.h"
#include "common/text/terminal.h"
#include "common/json/jsonx.h"

enum { NAME_COLUMNS = 16, PARAMETER_INDENT = 6, LINE = 4 * COLUMN_BYTES_MOST };

/* The columns of the widest text at `key`. */
static int widest(const json_t *list, const char *key)
{
    int most = 0;
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)list, i, one) {
        int n = text_columns(jsonx_string_at(one, key));
        most = n > most ? n : most;
    }
    return most;
}

/* A line of a parameter: its name, its type, and what it is for; then what it is without being
 * given. */
static void print_parameter(const json_t *p, int name_columns, int type_columns)
{
    char first[LINE], text[LINE], given[COLUMN_BYTES_MOST];
    const char *help = jsonx_string_at(p, "help");
    snprintf(first, sizeof first, "%*s%-*s  %-*s  ", PARAMETER_INDENT, "", name_columns,
             jsonx_string_at(p, "name"), type_columns, jsonx_string_at(p, "type"));
    if (json_object_get(p, "default")) {
        snprintf(text, sizeof text, "%s (default: %s)", help,
                 column_text(given, p, "default", COLUMN_TEXT));
    } else {
        snprintf(text, sizeof text, "%s%s", help,
                 json_is_true(json_object_get(p, "required")) ? " (required)" : "");
    }
    text_fill(stdout, terminal_width(stdout), first, PARAMETER_INDENT + name_columns + 2, text);
}

static void print_parameters(const json_t *list)
{
    int names = widest(list, "name"), types = widest(list, "type");
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)list, i, p) {
        print_parameter(p, names, types);
    }
}

/* A preset has a number of parameters; anything else, parameters that a job may set. */
static void print_entry(const json_t *entry)
{
    char first[LINE], count[64];
    const json_t *list = json_object_get(entry, "parameters");
    const char *name = json_is_string(entry) ? json_string_value(entry)
                                             : jsonx_string_at(entry, "name"),
               *help = jsonx_string_at(entry, "help");
    if (json_is_integer(list)) {
        snprintf(count, sizeof count, "%" JSON_INTEGER_FORMAT " parameters",
                 json_integer_value(list));
        help = count;
    }
    snprintf(first, sizeof first, "  %-*s%s", *help ? NAME_COLUMNS : 0, name, *help ? " " : "");
    text_fill(stdout, terminal_width(stdout), first, PARAMETER_INDENT + 2, help);
    if (json_is_array(list)) {
        print_parameters(list);
    }
}

static void print_catalog(const json_t *answer)
{
    const char *kind;
    json_t *entries, *entry;
    json_object_foreach((json_t *)answer, kind, entries) {
        size_t i;
        printf("%s\n", kind);
        json_array_foreach(entries, i, entry) {
            print_entry(entry);
        }
    }
}

int command_catalog(struct session *s)
{
    return session_show(s, "GET", "/api/v1/catalog", print_catalog);
}
