/* Time: see clock.h. */
#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static double seconds_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double clock_now(void)
{
    return seconds_of(CLOCK_MONOTONIC);
}

double clock_thread_cpu(void)
{
    return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double clock_process_cpu(void)
{
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t clock_wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct timespec clock_timespec(double monotonic)
{
    struct timespec t = {.tv_sec = (time_t)monotonic};
    t.tv_nsec = (long)((monotonic - (double)t.tv_sec) * 1e9);
    return t;
}

void clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

void clock_sleep_until(double monotonic)
{
    if (monotonic <= 0) {
        return;
    }
    struct timespec t = clock_timespec(monotonic);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {
    }
}

void clock_sleep(double seconds)
{
    if (seconds > 0) {
        clock_sleep_until(clock_now() + seconds);
    }
}

char *clock_format(char out[32], int64_t wall_ms)
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    char day[24];
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, 32, "%s.%03dZ", day, (int)(wall_ms % 1000));
    return out;
}

bool clock_minute_over(struct clock_minute *m, int most)
{
    double now = clock_now();
    if (now > m->began + 60) {
        *m = (struct clock_minute){.began = now};
    }
    return ++m->count > most;
}

int64_t clock_parse(const char *text)
{
    struct tm tm = {0};
    int ms = 0, n = 0;
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest || sscanf(rest, ".%3dZ%n", &ms, &n) != 1 || n == 0 || rest[n]) {
        return -1;
    }
    return (int64_t)timegm(&tm) * 1000 + ms;
}
