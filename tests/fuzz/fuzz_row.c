/* Rows as they come out of Redis or a file (job/row.h). The first two bytes pick the length, which
 * an older or a newer version may have written; what follows is the packed row. What was unpacked
 * and packed again says the same, and can be summarized, printed and shown. */
#include "tests/fuzz/fuzz.h"

#include "job/row.h"

/* Unpacks and packs again in the length of this version. */
static void again(const void *packed, int bytes, struct row *row, uint8_t out[ROW_BYTES])
{
    row_unpack(packed, bytes, row);
    row_pack(row, ROW_BYTES, out);
}

static void show(const struct row *row)
{
    static const enum row_shown shown[] = {ROW_STEPS, ROW_EVENTS};
    char csv[ROW_CSV_BYTES];
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        json_t *j = row_json(row, shown[i]);
        char *text = jsonx_dump(j, false, NULL);
        BUG_ON(!text);
        free(text);
        json_decref(j);
    }
    row_csv(row, csv);
    size_t commas = 0;
    for (const char *p = csv; *p; p++) {
        commas += *p == ',';
    }
    BUG_ON(commas != ROW_COLUMNS - 1);
}

/* Numbers of a row make a row whose numbers are the same, up to what a double holds. */
static void count(const struct row *row)
{
    float values[ROW_VALUES];
    double numbers[ROW_COLUMNS], twice[ROW_COLUMNS];
    struct row from;
    row_values(row, values);
    fuzz_read(values, sizeof values);
    row_to_numbers(row, numbers);
    row_from_numbers(numbers, &from);
    row_to_numbers(&from, numbers);
    row_from_numbers(numbers, &from);
    row_to_numbers(&from, twice);
    for (int c = 0; c < ROW_COLUMNS; c++) {
        BUG_ON(numbers[c] != twice[c] && (numbers[c] == numbers[c] || twice[c] == twice[c]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t packed[ROW_BYTES_MOST] = {0}, once[ROW_BYTES], twice[ROW_BYTES];
    struct row row;
    if (size < 2) {
        return 0;
    }
    int bytes = ROW_BYTES_FIRST + (data[0] | data[1] << 8) % (ROW_BYTES_MOST - ROW_BYTES_FIRST + 1);
    memcpy(packed, data + 2, size - 2 < sizeof packed ? size - 2 : sizeof packed);
    again(packed, bytes, &row, once);
    show(&row);
    count(&row);
    again(once, ROW_BYTES, &row, twice);
    BUG_ON(memcmp(once, twice, sizeof once) != 0);
    return 0;
}
