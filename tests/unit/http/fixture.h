/* A real HTTP server on a free loopback port, with its own redis-server and data directory. There
 * are two clients: libcurl for whole requests, plain sockets for what a well-behaved client never
 * sends. Nothing here sleeps.
 */
#ifndef TESTS_HTTP_FIXTURE_H
#define TESTS_HTTP_FIXTURE_H

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "http/server.h"
#include "job/documents/people/warning.h"
#include "job/documents/results/scored.h"
#include "tests/unit/store/fixture.h"

struct site {
    char dir[64], store_url[512], token[64], base[64], operator_token[64], viewer_token[64],
        static_dir[128];
    int port, pid;
    struct store *store;
    struct http_server *http;
    atomic_int woken, planned;    /* calls of the hooks */
    const char *plan_problem;     /* the plan hook adds this problem, if set */
    sem_t *_Atomic plan_gate;     /* the plan hook waits for it, if set */
    const char *datasets_problem; /* the hook of data sets fails with this sentence, if set */
    struct http_deadlines deadlines;
};

struct answer {
    long status;
    char *body; /* NUL-terminated */
    size_t len;
    char *headers;
    json_t *json; /* or NULL */
};

/* ---- the server ------------------------------------------------------------------------------ */

static inline json_t *site_plan(void *ctx, const json_t *spec, bool programs,
                                struct jsonx_problems *problems, struct err *e)
{
    struct site *s = ctx;
    (void)spec;
    (void)e;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    if (s->plan_gate) {
        sem_timedwait(s->plan_gate, &until);
    }
    s->planned++;
    if (s->plan_problem) {
        jsonx_problem(problems, "/data/path", "%s", s->plan_problem);
    }
    return json_pack(
        "{s:[{s:i, s:s, s:s, s:i, s:n}], s:[o], s:s}", "nodes", "rank", 0, "node", "one", "device",
        "cpu:1", "batch", 8, "memory_bytes", "warnings",
        warning_json(WARNING_MEMORY_SHORT, "/batching/global_batch", "it needs %d GB", 9), "starts",
        "now");
}

static inline void site_wake(void *ctx)
{
    ((struct site *)ctx)->woken++;
}

static inline json_t *site_datasets(void *ctx, struct err *e)
{
    const char *problem = ((struct site *)ctx)->datasets_problem;
    if (problem) {
        err_set(e, ERR_IO, "%s", problem);
        return NULL;
    }
    return json_pack("[{s:s, s:s}]", "path", "mnist", "format", "idx");
}

static inline json_t *site_dataset(void *ctx, const char *path, struct err *e)
{
    (void)ctx;
    (void)e;
    return json_pack("{s:s, s:s, s:i, s:[{s:i, s:n, s:i}], s:[{s:i, s:i, s:{s:i, s:i, s:i, s:s}}]}",
                     "path", path, "format", "idx", "samples", 1, "classes", "class", 0, "name",
                     "samples", 1, "examples", "sample", 0, "label", 0, "picture", "height", 1,
                     "width", 1, "channels", 1, "values", "AA==");
}

static inline json_t *site_programs(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return json_pack("[{s:s, s:s, s:[s]}]", "kind", "operator", "name", "fast", "command", "run");
}

/* Two classes, one of which is never recognised. */
static inline json_t *site_scored(void *ctx, const char *id, struct err *e)
{
    int64_t confusion[] = {3, 0, 2, 0};
    struct scored s = {.model = "model.safetensors",
                       .format = "idx",
                       .path = "mnist",
                       .part = "test",
                       .digest = id,
                       .device = "cpu",
                       .parameters = 7,
                       .samples = 5,
                       .loss = 0.5,
                       .classes = 2,
                       .confusion = confusion};
    (void)ctx;
    (void)e;
    scored_add_worst(&s, 4, 1, 0, 2.5);
    return scored_json(&s);
}

static inline void site_write(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    OK(proc_write_file(path, text, strlen(text), 0644, &err_));
}

static inline json_t *site_disk(void *ctx)
{
    return json_pack("{s:b, s:b, s:I, s:I, s:n, s:i, s:i, s:[{s:s, s:s, s:i, s:i}]}", "low", 0,
                     "full", 0, "free_bytes", (json_int_t)1 << 40, "used_bytes", (json_int_t)5000,
                     "max_disk_bytes", "data_bytes", 900, "can_go_bytes", 700, "jobs", "id",
                     "0123456789abcdef", "finished", "2026-01-02T03:04:05.678Z", "disk_bytes", 5000,
                     "can_go_bytes", 700);
}

static inline int site_start(struct site *s, const char *listen, const char *const *allow)
{
    char tokens[160];
    snprintf(tokens, sizeof tokens, "%s/token", s->dir);
    struct http_config c = {.listen = listen,
                            .data_dir = s->dir,
                            .static_dir = s->static_dir,
                            .store_url = s->store_url,
                            .token_file = tokens,
                            .allow_hosts = allow,
                            .deadlines = s->deadlines,
                            .hooks = {.ctx = s,
                                      .plan = site_plan,
                                      .wake = site_wake,
                                      .datasets = site_datasets,
                                      .dataset = site_dataset,
                                      .disk = site_disk,
                                      .programs = site_programs,
                                      .scored = site_scored}};
    s->http = http_start(&c, &err_);
    if (!s->http) {
        fprintf(stderr, "cannot start: %s\n", err_.message);
        return -1;
    }
    s->port = http_port(s->http);
    snprintf(s->base, sizeof s->base, "http://127.0.0.1:%d", s->port);
    return 0;
}

static inline int site_open(void **state)
{
    struct site *s = calloc(1, sizeof *s);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    snprintf(s->dir, sizeof s->dir, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(s->dir) || redis_private_start(s->dir, s->store_url, &s->pid, &err_) < 0 ||
        !(s->store = store_open(s->store_url, NULL, &err_))) {
        fprintf(stderr, "cannot start: %s (logs in %s)\n", err_.message, s->dir);
        return -1;
    }
    snprintf(s->token, sizeof s->token, "%s", "admin-0123456789abcdef");
    snprintf(s->operator_token, sizeof s->operator_token, "%s", "operator-0123456789abcdef");
    snprintf(s->viewer_token, sizeof s->viewer_token, "%s", "viewer-0123456789abcdef");
    site_write(s->dir, "token",
               "# tokens\nadmin-0123456789abcdef\noperator-0123456789abcdef operator Olga\n"
               "viewer-0123456789abcdef viewer\n");
    snprintf(s->static_dir, sizeof s->static_dir, "%s/static", s->dir);
    mkdir(s->static_dir, 0755);
    site_write(s->static_dir, "index.html", "<!doctype html><title>Evenstep</title>");
    site_write(s->static_dir, "app.js", "0123456789");
    *state = s;
    return site_start(s, "127.0.0.1:0", NULL);
}

static inline int site_close(void **state)
{
    struct site *s = *state;
    http_stop(s->http);
    store_close(s->store);
    redis_private_stop(s->dir);
    proc_remove_tree(s->dir, NULL);
    free(s);
    return 0;
}

/* ---- the client ------------------------------------------------------------------------------ */

struct bytes {
    char *data;
    size_t len;
};

static inline size_t take_bytes(char *data, size_t size, size_t n, void *ctx)
{
    struct bytes *b = ctx;
    b->data = realloc(b->data, b->len + size * n + 1);
    memcpy(b->data + b->len, data, size * n);
    b->len += size * n;
    b->data[b->len] = '\0';
    return size * n;
}

struct ask {
    const char *method, *path, *body, *token; /* body, token may be NULL */
    size_t body_len;                          /* 0: of the text */
    const char *headers[8];
};

static inline bool names_its_type(const struct ask *a)
{
    bool named = false;
    for (int i = 0; i < 8 && a->headers[i]; i++) {
        named |= strncasecmp(a->headers[i], "Content-Type:", 13) == 0;
    }
    return named;
}

static inline struct answer ask(struct site *s, struct ask a)
{
    char url[1024], authorization[160];
    struct bytes body = {calloc(1, 1), 0}, head = {calloc(1, 1), 0};
    struct curl_slist *list = NULL;
    struct answer out = {0};
    CURL *c = curl_easy_init();
    snprintf(url, sizeof url, "%s%s", s->base, a.path);
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, a.method);
    curl_easy_setopt(c, CURLOPT_NOBODY, strcmp(a.method, "HEAD") == 0 ? 1L : 0L);
    curl_easy_setopt(c, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_bytes);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, &body);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_bytes);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, &head);
    if (a.body) {
        curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE,
                         (curl_off_t)(a.body_len ? a.body_len : strlen(a.body)));
        curl_easy_setopt(c, CURLOPT_POSTFIELDS, a.body);
        if (!names_its_type(&a)) {
            list = curl_slist_append(list, "Content-Type: application/json");
        }
    }
    if (a.token) {
        snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", a.token);
        list = curl_slist_append(list, authorization);
    }
    for (int i = 0; i < 8 && a.headers[i]; i++) {
        list = curl_slist_append(list, a.headers[i]);
    }
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
    CURLcode rc = curl_easy_perform(c);
    if (rc != CURLE_OK) {
        fail_msg("%s %s: %s", a.method, a.path, curl_easy_strerror(rc));
    }
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &out.status);
    curl_slist_free_all(list);
    curl_easy_cleanup(c);
    out.body = body.data;
    out.len = body.len;
    out.headers = head.data;
    out.json = json_loadb(body.data, body.len, 0, NULL);
    return out;
}

static inline void answer_release(struct answer *a)
{
    free(a->body);
    free(a->headers);
    json_decref(a->json);
    memset(a, 0, sizeof *a);
}

/* A header of an answer into out[256]; false if there is none. */
static inline bool header_of(const struct answer *a, const char *name, char out[256])
{
    size_t n = strlen(name);
    for (const char *line = a->headers; line;
         line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            const char *value = line + n + 1 + strspn(line + n + 1, " ");
            snprintf(out, 256, "%.*s", (int)strcspn(value, "\r\n"), value);
            return true;
        }
    }
    out[0] = '\0';
    return false;
}

static inline struct answer get(struct site *s, const char *path)
{
    return ask(s, (struct ask){.method = "GET", .path = path, .token = s->token});
}

static inline struct answer post(struct site *s, const char *path, const char *body)
{
    return ask(s, (struct ask){.method = "POST", .path = path, .body = body, .token = s->token});
}

static inline void expect_status(struct answer *a, long status)
{
    if (a->status != status) {
        fail_msg("status %ld, expected %ld: %s", a->status, status, a->body);
    }
}

/* An error in the form of RFC 9457, with this status; `pointer` (or NULL) is among its errors. */
static inline void expect_problem(struct answer *a, long status, const char *pointer)
{
    char type[256];
    expect_status(a, status);
    assert_true(header_of(a, "Content-Type", type));
    assert_string_equal(type, "application/problem+json");
    assert_int_equal((long)number_at(a->json, "/status"), status);
    assert_true(json_is_string(at(a->json, "/type")) && json_is_string(at(a->json, "/title")) &&
                json_is_string(at(a->json, "/detail")));
    assert_true(json_is_array(at(a->json, "/errors")));
    assert_non_null(at(a->json, "/hint"));
    bool found = !pointer;
    size_t i;
    json_t *one;
    json_array_foreach(at(a->json, "/errors"), i, one) {
        assert_true(json_is_string(json_object_get(one, "message")));
        found |=
            pointer && strcmp(json_string_value(json_object_get(one, "pointer")), pointer) == 0;
    }
    if (!found) {
        fail_msg("no error at %s: %s", pointer, a->body);
    }
}

/* ---- plain sockets --------------------------------------------------------------------------- */

static inline int dial(struct site *s)
{
    struct sockaddr_in at_ = {.sin_family = AF_INET,
                              .sin_port = htons((uint16_t)s->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at_, sizeof at_), 0);
    return fd;
}

static inline bool say(int fd, const char *text)
{
    size_t n = strlen(text);
    return send(fd, text, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* Reads until `text` arrives, the other side ends, or the deadline passes; out gets what was read
 * (NUL-terminated). 1 found, 0 ended, -1 deadline. */
static inline int hear(int fd, const char *text, char *out, size_t bytes, double seconds)
{
    double until = clock_now() + seconds;
    size_t n = strlen(out);
    for (;;) {
        if (text && strstr(out, text)) {
            return 1;
        }
        double left = until - clock_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || n + 1 >= bytes || poll(&p, 1, (int)(left * 1000) + 1) <= 0) {
            return -1;
        }
        ssize_t got = recv(fd, out + n, bytes - n - 1, 0);
        if (got <= 0) {
            return 0;
        }
        n += (size_t)got;
        out[n] = '\0';
    }
}

#define GLYPHS                                                                                  \
    "\"model\": {\"input\": [28, 28, 1], \"layers\": [{\"type\": \"dense\", \"units\": 10}]}, " \
    "\"data\": {\"format\": \"glyphs\", \"samples\": 100, \"test_samples\": 20}, "              \
    "\"optimizer\": {\"type\": \"sgd\", \"learning_rate\": 0.05}, "                             \
    "\"strategy\": {\"type\": \"sync\"}, "                                                      \
    "\"batching\": {\"global_batch\": 16, \"policy\": \"equal\"}, \"workers\": 2, "             \
    "\"epochs\": 1, \"seed\": 1"
#define SPEC(name) "{\"name\": \"" name "\", " GLYPHS "}"

/* Submits a job and returns its id. */
static inline void submit(struct site *s, const char *spec, char id[STORE_ID])
{
    struct answer a = post(s, "/api/v1/jobs", spec);
    expect_status(&a, 201);
    snprintf(id, STORE_ID, "%s", text_at(a.json, "/id"));
    answer_release(&a);
}

static inline void move(struct site *s, const char *id, enum job_state from, enum job_state to)
{
    OK(store_job_transition(s->store, id, from, to, NULL, &err_));
}

/* The status of an answer to a request with this header; an error must be a problem document.
 * `body` may be NULL. */
static inline long status_with(struct site *s, const char *method, const char *path,
                               const char *header, const char *body)
{
    struct answer a = ask(
        s,
        (struct ask){
            .method = method, .path = path, .token = s->token, .body = body, .headers = {header}});
    long status = a.status;
    if (status >= 400) {
        expect_problem(&a, status, NULL);
    }
    answer_release(&a);
    return status;
}

#endif
