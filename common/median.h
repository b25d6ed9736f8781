/* The middle of some numbers. */
#ifndef COMMON_MEDIAN_H
#define COMMON_MEDIAN_H

/* Sorts values[n] in place, the least first. */
void median_sort(double *values, int n);
/* Sorts values[n], n > 0, and returns the middle one, or the mean of the two in the middle. */
double median_of(double *values, int n);

#endif
