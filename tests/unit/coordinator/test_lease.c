/* Which coordinator may work (coordinator/lease.c): two coordinators on one store, in one folder
 * and in two folders; a store that is away; a scheduler whose lease another coordinator has
 * taken. */
#include "tests/unit/coordinator/world.h"

#include <fcntl.h>
#include <sys/file.h>

static const volatile sig_atomic_t go_on = 0, told_to_end = 1;

static struct lease *open_in(const char *dir, bool standby)
{
    struct lease_config c = {
        .data_dir = dir, .host = "here", .address = "127.0.0.1:8080", .standby = standby};
    return lease_open(&c, &err_);
}

static struct lease *taken(struct world *w, const char *dir, bool standby)
{
    struct lease *l = open_in(dir, standby);
    assert_non_null(l);
    OK(lease_take(l, w->place->url, NULL, &go_on, &err_));
    assert_true(lease_held(l));
    return l;
}

static char *another_folder(char path[64])
{
    snprintf(path, 64, "/tmp/evenstep-lease-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static void a_second_one_in_the_same_folder_is_refused_by_its_lock(void **state)
{
    struct world *w = *state;
    struct lease *l = taken(w, w->place->dir, false);
    assert_null(open_in(w->place->dir, false));
    assert_int_equal(err_.code, ERR_CONFLICT);
    assert_non_null(strstr(err_.message, "another evenstep serve works in"));
    lease_close(l);
}

static void a_second_one_in_another_folder_is_told_who_works_on_the_store(void **state)
{
    struct world *w = *state;
    char dir[64];
    struct lease *l = taken(w, w->place->dir, false), *other = open_in(another_folder(dir), false);
    assert_int_equal(lease_take(other, w->place->url, NULL, &go_on, &err_), -ERR_CONFLICT);
    assert_non_null(strstr(err_.message, "on host 'here'"));
    assert_non_null(strstr(err_.message, "127.0.0.1:8080"));
    lease_close(other); /* does not release a lease that it does not hold */
    assert_true(lease_held(l) && !lease_lost(l));
    lease_close(l);
    other = taken(w, dir, false); /* a released lease needs no waiting */
    lease_close(other);
    proc_remove_tree(dir, NULL);
}

static void a_standby_that_is_told_to_end_waits_no_longer(void **state)
{
    struct world *w = *state;
    struct lease *l = taken(w, w->place->dir, false), *waits = open_in(w->place->dir, true);
    assert_non_null(waits);
    assert_int_equal(lease_take(waits, w->place->url, NULL, &told_to_end, &err_), -ERR_CANCELLED);
    lease_close(waits);
    assert_true(lease_held(l));
    lease_close(l);
}

/* The lease as a killed coordinator leaves it, with the `lock` of its folder. */
static void leave_a_lease(struct world *w, const char *lock)
{
    struct store_fence fence = {0};
    json_t *who = json_pack("{s:s, s:s}", "host", "gone", "lock", lock);
    struct store_candidate c = {"0123456789abcdef0123456789abcdef", who, NULL, false, NULL};
    assert_int_equal(store_leader_take(w->store, &c, &fence, NULL, &err_), 1);
    json_decref(who);
}

static void the_lease_of_a_killed_one_of_this_folder_is_taken_at_once(void **state)
{
    struct world *w = *state;
    struct lease *l = taken(w, w->place->dir, false);
    struct store_leader leader = {.instance = ""};
    json_t *nobody = json_object();
    struct store_candidate c = {"0123456789abcdef0123456789abcdef", nobody, NULL, true, NULL};
    struct store_fence fence = {0};
    assert_int_equal(store_leader_take(w->store, &c, &fence, &leader, &err_), 0);
    char lock[128];
    snprintf(lock, sizeof lock, "%s", text_at(leader.who, "/lock"));
    store_leader_release(&leader);
    json_decref(nobody);
    lease_close(l);
    leave_a_lease(w, lock);
    raw(w->place, "HINCRBY es:leader at 1000000000"); /* expires only in days */
    l = open_in(w->place->dir, false);
    OK(lease_take(l, w->place->url, NULL, &told_to_end, &err_)); /* at the first try, or never */
    assert_true(lease_held(l));
    lease_close(l);
}

/* A stopped coordinator keeps its folder's lock while a standby takes over. When it ends, the lock
 * is free, but the new leader does not hold it. */
static void who_leads_without_the_lock_outlives_the_end_of_the_one_that_had_it(void **state)
{
    struct world *w = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/serve.lock", w->place->dir);
    int stopped = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(stopped, LOCK_EX), 0);
    struct lease *leads = taken(w, w->place->dir, true);
    close(stopped);
    struct lease *next = open_in(w->place->dir, true);
    assert_non_null(next);
    assert_int_equal(lease_take(next, w->place->url, NULL, &told_to_end, &err_), -ERR_CANCELLED);
    lease_close(next);
    assert_true(lease_held(leads) && !lease_lost(leads));
    lease_close(leads);
}

/* A standby was given another store by mistake: that store has no coordinator, but the folder has
 * one. */
static void a_standby_on_another_store_does_not_work_in_the_folder(void **state)
{
    struct world *w = *state;
    char dir[64], url[512];
    int pid = 0;
    struct lease *l = taken(w, w->place->dir, false);
    OK(redis_private_start(another_folder(dir), url, &pid, &err_));
    struct lease *other = open_in(w->place->dir, true);
    assert_non_null(other);
    assert_int_equal(lease_take(other, url, NULL, &told_to_end, &err_), -ERR_CANCELLED);
    lease_close(other);
    assert_true(lease_held(l) && !lease_lost(l));
    lease_close(l);
    other = open_in(w->place->dir, true); /* nobody works in it now: it may have been moved */
    OK(lease_take(other, url, NULL, &told_to_end, &err_));
    lease_close(other);
    redis_private_stop(dir);
    proc_remove_tree(dir, NULL);
}

static void the_lease_of_one_that_cannot_be_judged_runs_out_first(void **state)
{
    struct world *w = *state;
    leave_a_lease(w, "another boot 1:2");
    struct lease *l = open_in(w->place->dir, false);
    assert_int_equal(lease_take(l, w->place->url, NULL, &told_to_end, &err_), -ERR_CANCELLED);
    lease_close(l);
    raw(w->place, "HINCRBY es:leader at -7000");
    l = taken(w, w->place->dir, false);
    lease_close(l);
}

static void an_outage_of_the_store_does_not_end_the_only_coordinator(void **state)
{
    struct world *w = *state;
    struct lease *l = taken(w, w->place->dir, false);
    redis_private_stop(w->place->dir);
    double until = clock_now() + 120;
    while (lease_held(l) && clock_now() < until) {
        clock_sleep(0.05);
    }
    assert_false(lease_held(l)); /* nothing is decided meanwhile */
    assert_false(lease_lost(l));
    OK(redis_private_start(w->place->dir, w->place->url, &w->place->pid, &err_));
    while (!lease_held(l) && clock_now() < until) {
        clock_sleep(0.05);
    }
    assert_true(lease_held(l));
    lease_close(l);
}

static _Atomic int told_lost; /* counted by the thread that renews the lease */

static void on_lost(void)
{
    told_lost++;
}

static void who_lost_it_knows_it_and_its_scheduler_decides_nothing_more(void **state)
{
    struct world *w = world_with(state, 1);
    char id[STORE_ID];
    struct lease_config c = {
        .data_dir = w->place->dir, .host = "here", .address = "127.0.0.1:8080", .lost = on_lost};
    struct lease *l = lease_open(&c, &err_);
    OK(lease_take(l, w->place->url, NULL, &go_on, &err_));
    struct sched_config sc = {.store = w->store,
                              .data_dir = w->place->dir,
                              .roots = "/nowhere",
                              .local_host = "here",
                              .virtual_jobs = 1,
                              .mpirun = &w->mpirun,
                              .lease = l};
    sched_free(w->sched);
    assert_non_null(w->sched = sched_new(&sc, &err_));
    raw(w->place, "HSET es:leader instance 0123456789abcdef0123456789abcdef token 1000");
    double until = clock_now() + 120;
    while (!lease_lost(l) && clock_now() < until) {
        clock_sleep(0.05);
    }
    assert_true(lease_lost(l) && !lease_held(l));
    assert_int_equal(told_lost, 1);
    submit(w, "{}", id);
    tick(w, 0.5);
    tick(w, 5);
    assert_int_equal(w->fake.n, 0);
    assert_state(w, id, "queued");
    world_new_coordinator(w);
    lease_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORLD(a_second_one_in_the_same_folder_is_refused_by_its_lock),
        IN_A_WORLD(who_leads_without_the_lock_outlives_the_end_of_the_one_that_had_it),
        IN_A_WORLD(a_second_one_in_another_folder_is_told_who_works_on_the_store),
        IN_A_WORLD(a_standby_that_is_told_to_end_waits_no_longer),
        IN_A_WORLD(the_lease_of_a_killed_one_of_this_folder_is_taken_at_once),
        IN_A_WORLD(a_standby_on_another_store_does_not_work_in_the_folder),
        IN_A_WORLD(the_lease_of_one_that_cannot_be_judged_runs_out_first),
        IN_A_WORLD(an_outage_of_the_store_does_not_end_the_only_coordinator),
        IN_A_WORLD(who_lost_it_knows_it_and_its_scheduler_decides_nothing_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
