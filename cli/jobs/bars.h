/* What `evenstep watch` draws of a job, as lines of text. */
#ifndef CLI_JOBS_BARS_H
#define CLI_JOBS_BARS_H

#include <jansson.h>
#include <stdio.h>

enum { BARS_LINE = 512 };

/* Workers that are not lost. */
int bars_workers(const json_t *job);
/* The line of the job: state, bar, figures. left: seconds until the end, 0 if they are not known.
 * Where it is wider than `width` (0: any width), its bar is shorter, and it is cut. */
void bars_job(const json_t *job, double left, int width, char out[BARS_LINE]);
/* A line for each worker, `most` at most, with a bar of its step against the longest one: █
 * computes, ▒ exchanges, ░ waits. Each line begins with "\n" and is at most `width` columns wide
 * (0: any width), with shorter bars where that is narrow. How many lines there are. */
int bars_nodes(const json_t *job, int width, int most, FILE *out);

#endif
