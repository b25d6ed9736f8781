/* A service for the tests of cli/, on a free loopback port in its own thread. It gives the answers
 * that the test sets and keeps the requests. The fixture also keeps what a command printed.
 * Commands run as functions in this process.
 */
#ifndef TESTS_CLI_FIXTURE_H
#define TESTS_CLI_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/session.h"
#include "common/process/proc.h"

enum { ANSWERS = 8, ASKED_BYTES = 8192, PRINTED_BYTES = 1 << 16 };

struct service {
    int fd;
    char url[64];
    pthread_t thread;
    struct {
        int status;
        const char *body;
    } answers[ANSWERS];
    int n_answers;
    char asked[ANSWERS][ASKED_BYTES]; /* requests, whole */
    int n_asked;                      /* read it once the command has returned */
};

static struct service service;

/* One request: the head, and as much body as its Content-Length says. */
static inline void read_request(int fd, char *out)
{
    size_t n = 0, wanted = ASKED_BYTES - 1;
    while (n < wanted) {
        ssize_t got = recv(fd, out + n, wanted - n, 0);
        if (got <= 0) {
            break;
        }
        n += (size_t)got;
        out[n] = '\0';
        const char *end = strstr(out, "\r\n\r\n"), *length = strstr(out, "Content-Length: ");
        if (end) {
            wanted = (size_t)(end + 4 - out) +
                     (length && length < end ? strtoul(length + 16, NULL, 10) : 0);
        }
    }
}

static inline void *serve(void *arg)
{
    struct service *s = arg;
    for (int i = 0; i < s->n_answers; i++) {
        char head[200];
        int fd = accept(s->fd, NULL, NULL);
        if (fd < 0) {
            break; /* the test is over, and asked less */
        }
        read_request(fd, s->asked[i]);
        s->n_asked = i + 1;
        size_t n = strlen(s->answers[i].body);
        int len = snprintf(head, sizeof head,
                           "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                           s->answers[i].status, n);
        send(fd, head, (size_t)len, MSG_NOSIGNAL);
        send(fd, s->answers[i].body, n, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

static inline void answers(int status, const char *body)
{
    assert_true(service.n_answers < ANSWERS);
    service.answers[service.n_answers].status = status;
    service.answers[service.n_answers++].body = body;
}

static inline int service_open(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    (void)state;
    memset(&service, 0, sizeof service);
    service.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(service.fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(service.fd, 8) < 0 ||
        getsockname(service.fd, (struct sockaddr *)&a, &len) < 0) {
        return -1;
    }
    snprintf(service.url, sizeof service.url, "http://127.0.0.1:%d", ntohs(a.sin_port));
    unsetenv("EVENSTEP_CONFIG");
    unsetenv("COLUMNS");
    setenv("EVENSTEP_URL", service.url, 1);
    setenv("EVENSTEP_TOKEN", "a-token", 1);
    return 0;
}

static inline int service_close(void **state)
{
    (void)state;
    return close(service.fd);
}

/* ---- running a command ----------------------------------------------------------------------- */

struct ran {
    int status;
    char out[PRINTED_BYTES], err[PRINTED_BYTES];
};
static struct ran ran;

static inline void take_printed(int fd, int was, int target, char *text)
{
    ssize_t n = pread(fd, text, PRINTED_BYTES - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    dup2(was, target);
    close(was);
    close(fd);
}

static inline int temporary(void)
{
    char name[] = "/tmp/evenstep-test-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    unlink(name);
    return fd;
}

/* Runs a command with the service's answers; blanks separate its arguments. */
static inline void run(const char *command, const char *arguments)
{
    static char words[8192];
    char *argv[32] = {(char *)"evenstep", (char *)command}, *rest = NULL;
    int argc = 2, out = temporary(), err = temporary();
    snprintf(words, sizeof words, "%s", arguments);
    for (char *w = strtok_r(words, " ", &rest); w; w = strtok_r(NULL, " ", &rest)) {
        argv[argc++] = w;
    }
    argv[argc] = NULL;
    fflush(NULL);
    int was_out = dup(STDOUT_FILENO), was_err = dup(STDERR_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    assert_int_equal(pthread_create(&service.thread, NULL, serve, &service), 0);
    ran.status = commands_main(argc, argv);
    shutdown(service.fd, SHUT_RDWR); /* whatever was not asked is not waited for */
    pthread_join(service.thread, NULL);
    fflush(NULL);
    take_printed(out, was_out, STDOUT_FILENO, ran.out);
    take_printed(err, was_err, STDERR_FILENO, ran.err);
}

static inline void assert_said(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("'%s' is not in '%s'", part, text);
    }
}

/* The i-th request was this: "METHOD PATH". */
static inline void assert_asked(int i, const char *line)
{
    char expected[300];
    snprintf(expected, sizeof expected, "%s HTTP/1.1\r\n", line);
    assert_true(i < service.n_asked);
    if (strncmp(service.asked[i], expected, strlen(expected)) != 0) {
        fail_msg("asked '%.80s', expected '%s'", service.asked[i], line);
    }
}

#define WITH_A_SERVICE(test) cmocka_unit_test_setup_teardown(test, service_open, service_close)

#endif
