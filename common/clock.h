/* Time: monotonic seconds for durations, wall-clock for people, thread CPU time for calibration. */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

double clock_now(void);           /* monotonic seconds */
double clock_thread_cpu(void);    /* CPU seconds of the calling thread */
double clock_process_cpu(void);   /* of all threads of the process */
int64_t clock_wall_ms(void);      /* milliseconds since 1970, UTC */
void clock_sleep(double seconds); /* returns at once if seconds <= 0; resumes after signals */
void clock_sleep_until(double monotonic); /* absolute, so that pacing does not drift */
/* Converts a time of clock_now() for pthread_cond_timedwait(), on a condition of clock_cond_init().
 * A wait on the wall clock would last for hours if somebody set that clock back. */
struct timespec clock_timespec(double monotonic);
void clock_cond_init(pthread_cond_t *cond);
/* Counts how often something happens within a minute. Starts as {0}. */
struct clock_minute {
    double began;
    int count;
};
/* Counts once more. True if the count exceeds `most` in this minute. */
bool clock_minute_over(struct clock_minute *m, int most);
/* "2026-01-02T03:04:05.678Z" into out[25]; returns out. */
char *clock_format(char out[32], int64_t wall_ms);
/* Parses what clock_format() wrote, into milliseconds; -1: it is something else. */
int64_t clock_parse(const char *text);

#endif
