/* `evenstep catalog`: everything that a job can name, with its parameters. */
#include <stdlib.h>

#include "cli/service/service.h"
#include "common/jsonx.h"

static const struct column parameters[] = {
    {"", "name", COLUMN_WHOLE},
    {"", "type", COLUMN_WHOLE},
    {"", "help", COLUMN_TEXT},
    {"", "value", COLUMN_TEXT},
    COLUMNS_END,
};

/* What a parameter is without being given goes into its `value`. */
static void print_parameters(const json_t *list)
{
    char value[COLUMN_BYTES_MOST + 16], given[COLUMN_BYTES_MOST];
    size_t i;
    json_t *p;
    json_array_foreach((json_t *)list, i, p) {
        value[0] = '\0';
        if (json_object_get(p, "default")) {
            snprintf(value, sizeof value, "default %s",
                     column_text(given, p, "default", COLUMN_TEXT));
        } else if (json_is_true(json_object_get(p, "required"))) {
            snprintf(value, sizeof value, "required");
        }
        json_object_set_new(p, "value", json_string(value));
    }
    if (json_array_size(list) > 0) {
        columns_print(list, parameters, "      ", stdout);
    }
}

/* A preset has a number of parameters; anything else, parameters that a job may set. */
static void print_entry(const json_t *entry)
{
    const json_t *list = json_object_get(entry, "parameters");
    if (json_is_string(entry)) {
        printf("  %s\n", json_string_value(entry));
    } else if (json_is_integer(list)) {
        printf("  %-16s %" JSON_INTEGER_FORMAT " parameters\n", jsonx_string_at(entry, "name"),
               json_integer_value(list));
    } else {
        printf("  %-16s %s\n", jsonx_string_at(entry, "name"), jsonx_string_at(entry, "help"));
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
