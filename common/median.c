/* See median.h. */
#include "common/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void median_sort(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
}

double median_of(double *values, int n)
{
    median_sort(values, n);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}
