/* A turn of a rank's pulse (store/jobs/report.c): what a round trip carries up and brings down. */
#include "tests/unit/store/fixture.h"

#include "job/row.h"

static const char *const spec_text = "{\"name\":\"report\"}";

static int count(void *ctx, const struct store_rows *entry, struct err *e)
{
    (void)e;
    *(int *)ctx += entry->n;
    return 0;
}

static void a_report_carries_rows_a_fact_and_a_heartbeat(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], rows_at[STORE_PLACE] = "0-0", facts_at[STORE_PLACE] = "0-0";
    struct row rows[] = {{.step = 4}, {.step = 5}};
    int seen = 0;
    json_t *beat = json_of("{\"phase\":\"computing\"}"), *fact = json_of("{\"type\":\"restored\"}");
    struct store_report report = {.rows = rows, .n_rows = 2, .fact = fact, .beat = beat};
    new_job(s, spec_text, 0, id);
    OK(store_report(s, id, 1, &report, &err_));
    OK(store_report(s, id, 1, &(struct store_report){0}, &err_)); /* nothing adds nothing */
    assert_null(report.control);                                  /* it is not asked for */
    assert_int_equal(rows_of(s, id, 1, rows_at, 10, count, &seen, &err_), 1);
    assert_int_equal(seen, 2);
    json_t *beats = store_beats(s, id, 13, &err_), *facts;
    assert_string_equal(text_at(beats, "/1/phase"), "computing");
    facts = store_facts_read(s, id, facts_at, 10, &err_);
    assert_int_equal(json_array_size(facts), 1);
    assert_string_equal(text_at(facts, "/0/type"), "restored");
    json_decref(beats);
    json_decref(facts);
    json_decref(fact);
    json_decref(beat);
}

static void control_comes_back_when_it_has_changed(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID];
    json_t *control = json_of("{\"version\":2}");
    struct row row = {.step = 1};
    struct store_report report = {.rows = &row, .wants_control = true};
    new_job(s, spec_text, 0, id);
    OK(store_report(s, id, 1, &report, &err_));
    assert_null(report.control); /* there is none yet */
    for (int version = 2; version < 6; version++) {
        report.n_rows = version % 2; /* with rows, and with nothing to tell */
        json_object_set_new(control, "version", json_integer(version));
        OK(store_doc_set(s, id, "control", control, &err_));
        OK(store_report(s, id, 1, &report, &err_));
        assert_int_equal(number_at(report.control, "/version"), version);
        json_decref(report.control);
        OK(store_report(s, id, 1, &report, &err_));
        assert_null(report.control); /* it is the same */
    }
    json_decref(control);
}

static void a_report_of_a_job_that_is_not_there_is_refused(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    json_t *fact = json_pack("{s:s}", "type", "ended");
    struct store_report report = {.fact = fact};
    assert_int_equal(store_fact_add(s, "00000000000000aa", fact, &err_), -ERR_NOT_FOUND);
    assert_int_equal(store_report(s, "00000000000000aa", 0, &report, &err_), -ERR_NOT_FOUND);
    json_decref(fact);
}

static void add_facts(struct store *s, const char *id, int n)
{
    for (int i = 0; i < n; i++) {
        json_t *fact = json_pack("{s:i}", "n", i);
        OK(store_fact_add(s, id, fact, &err_));
        json_decref(fact);
    }
}

/* How many facts there are, from the beginning. */
static size_t count_facts(struct store *s, const char *id)
{
    char last[STORE_PLACE] = "0-0";
    json_t *got = store_facts_read(s, id, last, 10000, &err_);
    size_t n = json_array_size(got);
    json_decref(got);
    return n;
}

static void of_many_facts_those_that_were_read_go(void **state)
{
    struct store *s = ((struct place *)*state)->store;
    char id[STORE_ID], last[STORE_PLACE] = "0-0";
    new_job(s, spec_text, 0, id);
    add_facts(s, id, 200);
    json_decref(store_facts_read(s, id, last, 150, &err_));
    OK(store_facts_trim(s, id, last, &err_));
    assert_int_equal(count_facts(s, id), 200); /* they are few */
    add_facts(s, id, 100);
    OK(store_facts_trim(s, id, "0-0", &err_)); /* none was read */
    assert_int_equal(count_facts(s, id), 300);
    OK(store_facts_trim(s, id, last, &err_));
    assert_int_equal(count_facts(s, id), 150);
    json_t *next = store_facts_read(s, id, last, 1, &err_);
    assert_int_equal(number_at(next, "/0/n"), 150);
    json_decref(next);
    assert_int_equal(store_facts_trim(s, id, "x", &err_), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_report_carries_rows_a_fact_and_a_heartbeat),
        cmocka_unit_test(control_comes_back_when_it_has_changed),
        cmocka_unit_test(a_report_of_a_job_that_is_not_there_is_refused),
        cmocka_unit_test(of_many_facts_those_that_were_read_go),
    };
    return cmocka_run_group_tests(tests, place_open, place_close);
}
