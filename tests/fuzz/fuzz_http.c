/* Request line, headers and body: the real server (its store is away) gets an input as the bytes of
 * one connection. Token "fuzzfuzzfuzzfuzz" is an admin's, so that seeds get past the door. The
 * server must outlive all of them, and what it says at first must be HTTP. */
#include "tests/fuzz/fuzz.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/log.h"
#include "http/server.h"

static void nothing(void *ctx)
{
    (void)ctx;
}

static json_t *no_plan(void *ctx, const json_t *spec, bool programs,
                       struct jsonx_problems *problems, struct err *e)
{
    return json_pack("{s:[], s:[], s:s}", "nodes", "warnings", "starts", "now");
}

static json_t *no_datasets(void *ctx, struct err *e)
{
    return json_array();
}

static json_t *no_program(void *ctx, FILE *archive, const char *who, bool *fresh,
                          struct jsonx_problems *problems, struct err *e)
{
    err_set(e, ERR_SYNTAX, "this is no archive: it begins with byte %d", fgetc(archive));
    return NULL;
}

static int the_port(void)
{
    static struct http_server *server;
    if (!server) {
        static char token_file[128];
        static const char *const names[] = {"fuzz.test",
                                            NULL}; /* the port is not known to the seeds */
        struct err e = {0};
        log_set_level(LOG_ERROR);
        fuzz_file("token", "fuzzfuzzfuzzfuzz admin fuzz\n", 28);
        snprintf(token_file, sizeof token_file, "%s/token", fuzz_folder());
        struct http_config c = {.listen = "127.0.0.1:0",
                                .data_dir = fuzz_folder(),
                                .static_dir = "static",
                                .store_url = "unix:/nowhere/redis.sock",
                                .token_file = token_file,
                                .allow_hosts = names};
        c.hooks.plan = no_plan;
        c.hooks.wake = nothing;
        c.hooks.datasets = no_datasets;
        c.hooks.program_add = no_program;
        c.hooks.uploads = true;
        server = http_start(&c, &e);
        if (!server) {
            fprintf(stderr, "%s\n", e.message);
            abort();
        }
    }
    return http_port(server);
}

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger at_once = {1, 0}; /* else every input leaves a port in TIME_WAIT */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BUG_ON(fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof at));
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char answer[4096];
    int fd = connect_to(the_port());
    size_t sent = 0;
    while (sent < size) {
        ssize_t n = send(fd, data + sent, size - sent, MSG_NOSIGNAL);
        if (n <= 0) {
            break; /* refused before its end */
        }
        sent += (size_t)n;
    }
    send(fd, "\r\n\r\n", 4, MSG_NOSIGNAL); /* most inputs are cut off: this ends their headers, and
                                              they get an answer */
    shutdown(fd, SHUT_WR);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n = poll(&p, 1, 20) > 0 ? recv(fd, answer, sizeof answer, 0) : 0;
    BUG_ON(n >= 12 && memcmp(answer, "HTTP/1.", 7) != 0);
    close(fd);
    return 0;
}
