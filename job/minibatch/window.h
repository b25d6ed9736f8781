/* Steps that are too short to say how fast a node is. A CPU quota stops a node for the rest of each
 * period, 100 ms on most machines. Of steps of 2 ms most are not stopped, and one takes 80 ms. So
 * each step alone says little. Steps of one minibatch are collected until they cover a stretch of
 * time, and their mean is one observation. A longer step counts by itself. Pure.
 */
#ifndef JOB_MINIBATCH_WINDOW_H
#define JOB_MINIBATCH_WINDOW_H

#include <stdbool.h>

/* Seconds: two periods of a CPU quota, as Linux, Docker and Kubernetes have it. */
static const double WINDOW_SECONDS = 0.2;

struct window {
    int batch, steps; /* steps of `batch` samples each, so far */
    int other;        /* minibatch of the last step, if it was another one */
    double sum;       /* seconds of computing */
    double began;     /* seconds of the job */
};

/* Adds a step that ended `now`. true: it completes a window of `length` seconds; out: its steps and
 * their sum, and `w` is empty. A different minibatch begins a new window only when it comes twice
 * in a row, since the last step of an epoch is often smaller. */
bool window_add(struct window *w, double length, int batch, double seconds, double now,
                struct window *out);

#endif
