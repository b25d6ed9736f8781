/* Prints the parts of docs and configuration that come from tables of the code: docs/print/tables
 * NAME. docs/generate puts a table between `<!-- table: NAME -->` and `<!-- end -->` of a page,
 * rights into deploy/container/users.acl, the type of rows into static/types/row.d.ts, and their
 * charts into static/js/views/job/rowcharts.js.
 */
#include <stdio.h>
#include <string.h>

#include "job/row.h"
#include "store/redis/keys.h"

static void print_rows(int unused)
{
    static const char *const merged[] = {
        [ROW_SAME] = "the same",       [ROW_COUNT] = "how many ranks", [ROW_SUM] = "sum",
        [ROW_LARGEST] = "the largest", [ROW_MEAN] = "mean by samples", [ROW_NEVER] = "",
    };
    static const char *const whose[] = {
        [ROW_NONE] = "", [ROW_NODE] = ", a node's", [ROW_JOB] = ", the job's"};
    (void)unused;
    puts("| column | unit | what | a step of the job | series |\n|---|---|---|---|---|");
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const struct row_column *column = &row_columns[c];
        const char *mark = column->series_name ? "`" : "";
        printf("| `%s` | %s | %s | %s | %s%s%s%s |\n", column->name, column->unit, column->help,
               merged[column->merged], mark, column->series_name ? column->series_name : "", mark,
               whose[column->series]);
    }
}

static void print_row_type(int unused)
{
    (void)unused;
    puts(
        "/* What the API says of a step: the columns of job/row.def. `make docs` makes this file. */\n"
        "declare namespace Api {\n"
        "  /** One step of one worker (GET jobs/ID/steps, and events). */\n"
        "  interface Row {\n"
        "    node: string;");
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const struct row_column *column = &row_columns[c];
        if (column->shown != ROW_NOWHERE) {
            printf("    /** %s */\n    %s%s: number%s;\n", column->help, column->name,
                   column->shown == ROW_STEPS ? "?" : "",
                   column->type == ROW_FLOAT_OR_NULL ? "|null" : "");
        }
    }
    puts("  }\n}");
}

static void print_js(const char *key, const char *text, const char *end)
{
    printf("    %s: '", key);
    for (const char *p = text; *p; p++) {
        printf("%s%c", *p == '\'' || *p == '\\' ? "\\" : "", *p);
    }
    printf("'%s\n", end);
}

static void print_row_charts(int unused)
{
    (void)unused;
    puts(
        "/* Columns of rows that have a chart of their own: CHART in job/row.def. `make docs` makes this\n"
        "   file. */\n"
        "// clang-format off\n"
        "/** @type {Page.Figure[]} */\n"
        "export const CHARTS = [");
    for (const struct row_chart *c = row_charts; c->series; c++) {
        puts("  {");
        print_js("series", c->series, ",");
        print_js("title", c->title, ",");
        print_js("subtitle", c->subtitle, "");
        puts("  },");
    }
    puts("];");
}

static bool is_in(enum key_group group, int wanted)
{
    return (int)group == wanted ||
           (wanted == KEYS_JOBS && (group == KEYS_JOB || group == KEYS_RANK));
}

static void print_keys(int group)
{
    puts("| key | type | what | who writes | who reads | lives |\n|---|---|---|---|---|---|");
    for (int k = 0; k < KEY_COUNT; k++) {
        const struct key_info *key = &store_keys[k];
        if (is_in(key->group, group)) {
            printf("| `%s` | %s | %s | %s | %s | %s |\n", key->pattern, key->type, key->what,
                   key->writers, key->readers, key->lives);
        }
    }
}

static void print_rights(int user)
{
    struct buf out;
    buf_init(&out, 4096);
    key_rights(&out, (enum key_user)user);
    puts(out.data);
    buf_release(&out);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(int which);
        int which;
    } tables[] = {
        {"rows", print_rows, 0},
        {"type of rows", print_row_type, 0},
        {"charts of rows", print_row_charts, 0},
        {"keys of jobs", print_keys, KEYS_JOBS},
        {"keys of events", print_keys, KEYS_EVENTS},
        {"keys of nodes", print_keys, KEYS_NODES},
        {"keys of hosts", print_keys, KEYS_HOSTS},
        {"keys of secrets", print_keys, KEYS_SECRETS},
        {"keys of webhooks", print_keys, KEYS_WEBHOOKS},
        {"keys of sweeps", print_keys, KEYS_SWEEPS},
        {"rights of worker", print_rights, KEY_WORKER},
        {"rights of agent", print_rights, KEY_AGENT},
        {"rights of keeper", print_rights, KEY_KEEPER},
    };
    for (size_t i = 0; argc == 2 && i < sizeof tables / sizeof *tables; i++) {
        if (!strcmp(argv[1], tables[i].name)) {
            tables[i].print(tables[i].which);
            return 0;
        }
    }
    fprintf(stderr, "docs/tables: there is no table '%s'\n", argc == 2 ? argv[1] : "");
    return 2;
}
