/* Tables of text that fit the terminal. Columns are as wide as their widest cell. Where the line
 * would be too long, the widest text columns are cut, with "…"; numbers never are. What does not
 * fit even so is printed in parts, one below the other, each of which begins with the first column:
 *
 *     rank  node    minibatch
 *        0  fast-1         32
 *     rank  samples/s  state
 *        0     151243  done
 *
 *     struct table t;
 *     table_init(&t, heads, 3);
 *     table_cell(&t, "id");  …                 row by row, from left to right
 *     table_print(&t, "  ", terminal_width(stdout), stdout);
 *     table_release(&t);
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

enum { TABLE_COLUMNS = 24 };

enum table_kind {
    TABLE_TEXT,  /* to the left, cut where it does not fit */
    TABLE_WHOLE, /* to the left, never cut: what is copied into the next command, times */
    TABLE_RIGHT, /* numbers */
};

struct table_head {
    const char *title; /* borrowed until table_release */
    enum table_kind kind;
};

struct table {
    struct table_head heads[TABLE_COLUMNS];
    int columns;
    char **cells; /* row after row; owned */
    size_t n, room;
};

void table_init(struct table *t, const struct table_head *heads, int columns);
void table_release(struct table *t);
/* The next cell; the text is copied. */
void table_cell(struct table *t, const char *text);
/* Prints heads (without them if all titles are empty) and rows, each line behind `indent`, at most
 * `width` columns wide (0: as wide as it gets, in one part). */
void table_print(const struct table *t, const char *indent, int width, FILE *out);

#endif
