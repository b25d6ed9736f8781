/* Prints the tables of the docs that come from tables of the code: docs/tables NAME. docs/generate
 * puts them between `<!-- table: NAME -->` and `<!-- end -->`.
 */
#include <stdio.h>
#include <string.h>

#include "job/row.h"

static void print_rows(void)
{
    static const char *const merged[] = {
        [ROW_SAME] = "the same",       [ROW_COUNT] = "how many ranks", [ROW_SUM] = "sum",
        [ROW_LARGEST] = "the largest", [ROW_MEAN] = "mean by samples", [ROW_NEVER] = "",
    };
    static const char *const whose[] = {
        [ROW_NONE] = "", [ROW_NODE] = ", a node's", [ROW_JOB] = ", the job's"};
    puts("| column | unit | what | a step of the job | series |\n|---|---|---|---|---|");
    for (int c = 0; c < ROW_COLUMNS; c++) {
        const struct row_column *column = &row_columns[c];
        const char *mark = column->series_name ? "`" : "";
        printf("| `%s` | %s | %s | %s | %s%s%s%s |\n", column->name, column->unit, column->help,
               merged[column->merged], mark, column->series_name ? column->series_name : "", mark,
               whose[column->series]);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*print)(void);
    } tables[] = {{"rows", print_rows}};
    for (size_t i = 0; argc == 2 && i < sizeof tables / sizeof *tables; i++) {
        if (!strcmp(argv[1], tables[i].name)) {
            tables[i].print();
            return 0;
        }
    }
    fprintf(stderr, "usage: tables rows\n");
    return 2;
}
