/* See table.h. */
#include "cli/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal.h"
#include "common/err.h"

enum { GAP = 2, LEAST = 6, CELL_BYTES = 2048 };

void table_init(struct table *t, const struct table_head *heads, int columns)
{
    BUG_ON(columns > TABLE_COLUMNS);
    memset(t, 0, sizeof *t);
    memcpy(t->heads, heads, sizeof *heads * (size_t)columns);
    t->columns = columns;
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    t->cells = NULL;
    t->n = t->room = 0;
}

void table_cell(struct table *t, const char *text)
{
    if (t->n == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        char **grown = realloc(t->cells, sizeof *grown * t->room);
        BUG_ON(!grown);
        t->cells = grown;
    }
    t->cells[t->n] = strdup(text);
    BUG_ON(!t->cells[t->n]);
    t->n++;
}

/* ---- widths ---------------------------------------------------------------------------------- */

static void measure(const struct table *t, int widths[TABLE_COLUMNS])
{
    for (int c = 0; c < t->columns; c++) {
        widths[c] = text_columns(t->heads[c].title);
    }
    for (size_t i = 0; i < t->n; i++) {
        int c = (int)(i % (size_t)t->columns), n = text_columns(t->cells[i]);
        widths[c] = n > widths[c] ? n : widths[c];
    }
}

/* Takes columns from the widest text until `over` of them are gone, or no text has more than
 * LEAST. */
static void shrink(const struct table *t, int widths[TABLE_COLUMNS], int over)
{
    for (; over > 0; over--) {
        int widest = -1;
        for (int c = 0; c < t->columns; c++) {
            if (t->heads[c].kind == TABLE_TEXT && widths[c] > LEAST &&
                (widest < 0 || widths[c] > widths[widest])) {
                widest = c;
            }
        }
        if (widest < 0) {
            return;
        }
        widths[widest]--;
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static void pad(char *line, size_t size, int n)
{
    size_t at = strlen(line);
    for (; n > 0 && at + 1 < size; n--) {
        line[at++] = ' ';
    }
    line[at] = '\0';
}

static void append(char *line, size_t size, const char *text)
{
    size_t at = strlen(line);
    snprintf(line + at, size - at, "%s", text);
}

/* One line; cells NULL: the heads. */
static void print_line(const struct table *t, char **cells, const int widths[TABLE_COLUMNS],
                       const char *indent, int width, FILE *out)
{
    char line[8192], cell[CELL_BYTES];
    snprintf(line, sizeof line, "%s", indent);
    for (int c = 0; c < t->columns; c++) {
        bool right = t->heads[c].kind == TABLE_RIGHT;
        text_cut(cell, sizeof cell, cells ? cells[c] : t->heads[c].title, widths[c]);
        int free_columns = widths[c] - text_columns(cell);
        pad(line, sizeof line, right ? free_columns : 0);
        append(line, sizeof line, cell);
        pad(line, sizeof line, c + 1 == t->columns ? 0 : (right ? 0 : free_columns) + GAP);
    }
    for (size_t n = strlen(line); n > 0 && line[n - 1] == ' '; n--) {
        line[n - 1] = '\0';
    }
    char fits[sizeof line];
    fprintf(out, "%s\n", width > 0 ? text_cut(fits, sizeof fits, line, width) : line);
}

void table_print(const struct table *t, const char *indent, int width, FILE *out)
{
    int widths[TABLE_COLUMNS], all = text_columns(indent) + GAP * (t->columns - 1);
    bool titles = false;
    measure(t, widths);
    for (int c = 0; c < t->columns; c++) {
        all += widths[c];
        titles = titles || t->heads[c].title[0];
    }
    shrink(t, widths, width > 0 ? all - width : 0);
    if (titles) {
        print_line(t, NULL, widths, indent, width, out);
    }
    for (size_t i = 0; i + (size_t)t->columns <= t->n; i += (size_t)t->columns) {
        print_line(t, t->cells + i, widths, indent, width, out);
    }
}
