/* Our side of bench-rules (tests/bench/bench_rules.py): a server's rules over a shard in memory,
 * and memcpy on the same arrays. A process that answers lines:
 *
 *   NAME N TIMES      seconds of one pass over N floats, and the bytes that it reads and writes;
 * NAME of the table below, or copy
 *
 * Bytes are those of the arrays that the rule touches, each once for reading and once for writing;
 * a copy reads and writes. New weights stand elsewhere than those before, as at a server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "kernels/device.h"

enum { GATHER = RULES };

static const struct rule_case {
    const char *name;
    int rule; /* enum rule, or GATHER */
    bool velocity, square, pulled, decay;
    int floats; /* read and written for each weight */
} cases[] = {
    {"sgd", RULE_SGD, false, false, false, false, 3},
    {"sgd-decay", RULE_SGD, false, false, false, true, 3},
    {"momentum", RULE_SGD, true, false, false, false, 5},
    {"momentum-decay", RULE_SGD, true, false, false, true, 5},
    {"dc-asgd", RULE_DC_ASGD, false, false, true, false, 4},
    {"dc-asgd-momentum", RULE_DC_ASGD, true, false, true, true, 6},
    {"dc-asgd-adaptive", RULE_DC_ASGD, false, true, true, false, 6},
    {"dc-asgdk", RULE_TRUST, true, false, false, false, 5},
    {"ddc-asgd", RULE_TRUST, true, false, false, true, 5},
    {"collect", GATHER, false, false, false, false, 3},
    {"collect-decay", GATHER, false, false, false, true, 4},
};
enum { CASES = sizeof cases / sizeof *cases };

static float *w, *next, *v, *square, *g, *pulled, *sum;
static uint8_t *decays;
static size_t room;

static float *array(size_t n, float scale)
{
    float *x = malloc(n * sizeof(float));
    for (size_t i = 0; x && i < n; i++) {
        x[i] = scale * (float)(i % 1009) / 1009.0f;
    }
    return x;
}

static bool make_room(size_t n)
{
    if (n > room) {
        float **all[] = {&w, &next, &v, &square, &g, &pulled, &sum};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            free(*all[i]);
            *all[i] = array(n, 0.1f);
        }
        free(decays);
        decays = malloc(n);
        room = n;
        if (decays) {
            memset(decays, 1, n);
        }
    }
    return w && next && v && square && g && pulled && sum && decays;
}

static void pass(const struct rule_case *c, size_t n)
{
    struct rule_state s = {.w = w,
                           .v = c->velocity ? v : NULL,
                           .m2 = c->square ? square : NULL,
                           .decay = c->decay ? decays : NULL,
                           .n = n};
    struct rule_args a = {.g = g,
                          .pulled = c->pulled ? pulled : NULL,
                          .lr = 1e-4f,
                          .factor = 0.25f,
                          .momentum = 0.9f,
                          .weight_decay = c->decay ? 1e-4f : 0,
                          .tau = 3,
                          .p0 = 0.5f,
                          .p1 = 0.5f,
                          .p2 = 1e-7f};
    if (c->rule == GATHER) {
        rule_gather(sum, &s, &a);
        return;
    }
    s.from = w; /* as a server does: somebody holds the version before */
    s.w = next;
    rule_apply((enum rule)c->rule, &s, &a);
    next = w;
    w = s.w;
}

static bool answer(const char *name, size_t n, int times)
{
    const struct rule_case *c = NULL;
    for (int i = 0; i < CASES; i++) {
        c = strcmp(cases[i].name, name) == 0 ? &cases[i] : c;
    }
    bool copy = strcmp(name, "copy") == 0;
    if ((!c && !copy) || n < 1 || times < 1 || !make_room(n)) {
        return false;
    }
    double begin = clock_now();
    for (int i = 0; i < times; i++) {
        if (copy) {
            memcpy(i % 2 ? pulled : sum, i % 2 ? sum : pulled, n * sizeof(float));
        } else {
            pass(c, n);
        }
    }
    double bytes = (double)n * (double)sizeof(float) * (copy ? 2 : c->floats) +
                   (!copy && c->decay ? (double)n : 0);
    printf("%.9f %.0f\n", (clock_now() - begin) / times, bytes);
    fflush(stdout);
    return true;
}

int main(void)
{
    char line[100], name[40];
    size_t n;
    int times;
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%39s %zu %d", name, &n, &times) != 3 || !answer(name, n, times)) {
            fprintf(stderr, "bench_rules: cannot answer '%.60s'\n", line);
            return 1;
        }
    }
    return 0;
}
