/* Users of Redis for ranks on hosts with agents (coordinator/turn/users.c): created with an
 * attempt, and again after a restart of Redis. */
#include "tests/unit/coordinator/world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "store/users.h"

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    close(fd);
    return ntohs(at.sin_port);
}

/* Another process may take a port that was free. */
static int redis_port(struct world *w)
{
    redisContext *c = redisConnectUnix(w->place->url + strlen("unix:"));
    int port = 0;
    for (int tries = 0; !port && tries < 20; tries++) {
        int next = free_port();
        redisReply *r = redisCommand(c, "CONFIG SET port %d", next);
        port = r && r->type != REDIS_REPLY_ERROR ? next : 0;
        freeReplyObject(r);
    }
    redisFree(c);
    assert_true(port > 0);
    return port;
}

/* Only a Redis over TCP has users. */
static void listen_on_tcp(struct world *w)
{
    char url[60];
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", redis_port(w));
    store_close(w->place->store);
    assert_non_null(w->place->store = store_open(url, NULL, &err_));
    w->store = w->place->store;
    world_new_coordinator(w);
}

static void far_node(struct world *w, const char *name)
{
    world_node(w, name, 1);
    json_t *node = w->nodes[w->n_nodes - 1];
    json_object_set_new(node, "host", json_string("far"));
    json_object_set_new(node, "agent", json_true());
    json_object_set_new(node, "address", json_string("192.0.2.1"));
    OK(node_beats(w, node));
}

/* A job whose rank is on another host, with its user. */
static struct world *world_remote(void **state, char id[STORE_ID], char user[STORE_USER])
{
    struct world *w = *state;
    listen_on_tcp(w);
    far_node(w, "n1");
    start_job(w, "{}", id);
    store_user_of_ranks(user, id, 1, "far");
    return w;
}

/* Calls of ACL SETUSER since Redis started. */
static int users_made(struct world *w)
{
    redisContext *c = redisConnectUnix(w->place->url + strlen("unix:"));
    redisReply *r = redisCommand(c, "INFO commandstats");
    assert_true(r && r->type != REDIS_REPLY_ERROR);
    const char *at = strstr(r->str, "cmdstat_acl|setuser:calls=");
    int n = at ? (int)strtol(strchr(at, '=') + 1, NULL, 10) : 0;
    freeReplyObject(r);
    redisFree(c);
    return n;
}

static bool has_user(struct world *w, const char *user)
{
    redisContext *c = redisConnectUnix(w->place->url + strlen("unix:"));
    redisReply *r = redisCommand(c, "ACL GETUSER %s", user);
    bool has = r && r->type == REDIS_REPLY_ARRAY;
    freeReplyObject(r);
    redisFree(c);
    return has;
}

/* Simulates a restart: removes the users and closes every connection. */
static void forget_user(struct world *w, const char *user)
{
    char command[60 + STORE_USER];
    snprintf(command, sizeof command, "ACL DELUSER %s", user);
    raw(w->place, command);
    raw(w->place, "CLIENT KILL TYPE normal SKIPME yes");
}

static void users_are_made_once_while_redis_is_the_same(void **state)
{
    char id[STORE_ID], user[STORE_USER];
    struct world *w = world_remote(state, id, user);
    assert_true(has_user(w, user));
    pass(w, 20);
    assert_state(w, id, "running");
    assert_int_equal(users_made(w), 1);
}

static void a_redis_that_was_started_anew_gets_them_at_the_next_turn(void **state)
{
    char id[STORE_ID], user[STORE_USER];
    struct world *w = world_remote(state, id, user);
    forget_user(w, user);
    assert_false(has_user(w, user));
    tick(w, 0.5);
    tick(w, 0.001);
    assert_true(has_user(w, user));
    assert_int_equal(users_made(w), 2);
}

static void the_next_coordinator_makes_them_for_the_attempts_that_it_finds(void **state)
{
    char id[STORE_ID], user[STORE_USER];
    struct world *w = world_remote(state, id, user);
    forget_user(w, user);
    world_new_coordinator(w);
    tick(w, 0.5);
    assert_true(has_user(w, user));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(users_are_made_once_while_redis_is_the_same),
        IN_A_WORLD(a_redis_that_was_started_anew_gets_them_at_the_next_turn),
        IN_A_WORLD(the_next_coordinator_makes_them_for_the_attempts_that_it_finds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
