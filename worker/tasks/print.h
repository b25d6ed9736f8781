/* The answer of a task: one JSON document on standard output. */
#ifndef WORKER_TASKS_PRINT_H
#define WORKER_TASKS_PRINT_H

#include <jansson.h>
#include <stdbool.h>

/* Prints it as one line, and releases it. False if it could not be printed. */
bool print_answer(json_t *answer);

#endif
