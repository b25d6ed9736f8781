/* What `evenstep watch` draws of a job, as lines of text. */
#ifndef CLI_JOBS_BARS_H
#define CLI_JOBS_BARS_H

#include <jansson.h>
#include <stdio.h>

enum { BARS_LINE = 512 };

/* Workers that are not lost. */
int bars_workers(const json_t *job);
/* The line of the job: state, bar, figures. left: seconds until the end; 0: not known. A line wider
 * than `width` (0: any width) gets a shorter bar, and is then cut. */
void bars_job(const json_t *job, double left, int width, char out[BARS_LINE]);
/* A line for each worker, `most` at most, with a bar of its step against the longest one: █
 * computes, ▒ exchanges, ░ waits. Each line begins with "\n" and is at most `width` columns wide
 * (0: any width), with shorter bars if need be. Returns the number of lines. */
int bars_nodes(const json_t *job, int width, int most, FILE *out);

#endif
