/* See table.h. */
#include "cli/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/text/terminal.h"
#include "common/err.h"

enum { GAP = 2, LEAST = 6, READABLE = 12, CELL_BYTES = 2048 };

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

/* Columns that a line takes, without its indent. A column of width 0 is not in it. */
static int line_columns(const struct table *t, const int widths[TABLE_COLUMNS])
{
    int all = 0;
    for (int c = 0; c < t->columns; c++) {
        all += widths[c] > 0 ? widths[c] + GAP : 0;
    }
    return all > 0 ? all - GAP : 0;
}

/* Takes columns from the widest text until the line has at most `width`, or no text has more than
 * `least`. Returns whether it has. */
static bool shrink(const struct table *t, int widths[TABLE_COLUMNS], int width, int least)
{
    for (int over = line_columns(t, widths) - width; over > 0; over--) {
        int widest = -1;
        for (int c = 0; c < t->columns; c++) {
            if (t->heads[c].kind == TABLE_TEXT && widths[c] > least &&
                (widest < 0 || widths[c] > widths[widest])) {
                widest = c;
            }
        }
        if (widest < 0) {
            return false;
        }
        widths[widest]--;
    }
    return true;
}

/* The next part of a table that does not fit: the first column, and as many from `from` on as have
 * room beside it, one at least. Returns the column that the part after it begins with. */
static int take_part(const struct table *t, const int natural[TABLE_COLUMNS], int from, int width,
                     int widths[TABLE_COLUMNS])
{
    memset(widths, 0, sizeof *widths * TABLE_COLUMNS);
    widths[0] = natural[0];
    int c = from;
    for (; c < t->columns; c++) {
        int tried[TABLE_COLUMNS];
        widths[c] = natural[c];
        memcpy(tried, widths, sizeof tried);
        if (!shrink(t, tried, width, READABLE) && c > from) {
            widths[c] = 0;
            break;
        }
    }
    shrink(t, widths, width, READABLE);
    return c;
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
    char line[8192], cell[CELL_BYTES], fits[sizeof line];
    int gap = 0; /* behind the column before */
    snprintf(line, sizeof line, "%s", indent);
    for (int c = 0; c < t->columns; c++) {
        if (widths[c] == 0) {
            continue;
        }
        bool right = t->heads[c].kind == TABLE_RIGHT;
        text_cut(cell, sizeof cell, cells ? cells[c] : t->heads[c].title, widths[c]);
        int free_columns = widths[c] - text_columns(cell);
        pad(line, sizeof line, gap + (right ? free_columns : 0));
        append(line, sizeof line, cell);
        gap = GAP + (right ? 0 : free_columns);
    }
    for (size_t n = strlen(line); n > 0 && line[n - 1] == ' '; n--) {
        line[n - 1] = '\0';
    }
    fprintf(out, "%s\n", width > 0 ? text_cut(fits, sizeof fits, line, width) : line);
}

static void print_part(const struct table *t, const int widths[TABLE_COLUMNS], const char *indent,
                       int width, FILE *out)
{
    bool titles = false;
    for (int c = 0; c < t->columns; c++) {
        titles = titles || t->heads[c].title[0];
    }
    if (titles) {
        print_line(t, NULL, widths, indent, width, out);
    }
    for (size_t i = 0; i + (size_t)t->columns <= t->n; i += (size_t)t->columns) {
        print_line(t, t->cells + i, widths, indent, width, out);
    }
}

void table_print(const struct table *t, const char *indent, int width, FILE *out)
{
    int natural[TABLE_COLUMNS] = {0}, widths[TABLE_COLUMNS];
    int room = width - text_columns(indent);
    measure(t, natural);
    memcpy(widths, natural, sizeof widths);
    if (width <= 0 || shrink(t, widths, room, LEAST) || t->columns == 1) {
        print_part(t, widths, indent, width, out);
        return;
    }
    for (int from = 1; from < t->columns;) {
        from = take_part(t, natural, from, room, widths);
        print_part(t, widths, indent, width, out);
    }
}
