/* The keys of a spec about samples and their changes: data, augment. */
#include "tests/unit/job/parsed.h"

static const char example[] =
    "{\"model\": \"resnet20\", \"data\": {\"format\": \"cifar-10\", \"path\": \"cifar-10\"}, "
    "\"batching\": {\"global_batch\": 128}}";

static struct parsed *parse_with(const char *patch)
{
    return parse_patched(example, patch);
}

static void refused(const char *patch, const char *pointer, const char *part)
{
    refused_with(parse_with(patch), patch, pointer, part);
}

/* For a data set that is opened for a list, before anybody has written a spec for it. */
static void a_format_that_is_named_alone_has_the_defaults_of_its_parameters(void **state)
{
    struct data_spec d;
    (void)state;
    spec_data_defaults(&d, CAT_FORMAT_GLYPHS);
    assert_true(d.format == CAT_FORMAT_GLYPHS && d.samples == 60000 && d.test_samples == 10000);
    spec_data_defaults(&d, CAT_FORMAT_IMAGES);
    assert_true(d.format == CAT_FORMAT_IMAGES && d.samples == 0 && d.threads == 2 && !d.stretch);
    assert_true(d.size[0] == 0 && d.size[1] == 0); /* as in the pictures */
    assert_string_equal(d.path, "");
}

static void augmentation_is_read_key_by_key(void **state)
{
    (void)state;
    struct parsed *p = parse_with(
        "{\"augment\": {\"flip\": {}, \"crop\": {\"padding\": 4}, \"shift\": {\"pixels\": 3, "
        "\"fill\": \"edge\"}}}");
    assert_int_equal(p->rc, 0);
    const struct augment_spec *a = &p->spec.data.augment;
    assert_true(a->flip == 0.5 && a->shift == 3 && a->shift_edge);
    assert_true(a->crop && a->crop_padding == 4 && a->crop_size[0] == 32 && a->crop_size[1] == 32);
    done(p);
    p = parse_with("{}");
    a = &p->spec.data.augment;
    assert_true(p->rc == 0 && a->flip == 0 && a->shift == 0 && !a->crop);
    done(p);
}

static void a_spec_with_augmentation_parses_to_the_same_again(void **state)
{
    (void)state;
    static const char *const patches[] = {
        "{\"augment\": {\"flip\": {\"probability\": 0.25}, \"crop\": {\"size\": 32}}}",
        "{\"model\": \"tf-cifar\"}",
        ("{\"model\": \"tf-cifar\", \"augment\": {\"crop\": {\"size\": [24, 24], "
         "\"padding\": 1}, \"flip\": {}}, \"data\": {\"format\": \"cifar-100\", \"path\": \"c\", "
         "\"labels\": \"coarse\", \"normalize\": \"picture\", \"validation\": 0.1}}"),
    };
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        struct parsed *p = parse_with(patches[i]), *again = parse_json(p->spec.json);
        assert_int_equal(p->rc, 0);
        assert_int_equal(again->rc, 0);
        assert_true(json_equal(p->spec.json, again->spec.json));
        assert_memory_equal(&p->spec.data.augment, &again->spec.data.augment,
                            sizeof p->spec.data.augment);
        assert_true(again->spec.data.normalize_picture == (i == 2) &&
                    again->spec.data.coarse == (i == 2));
        done(again);
        done(p);
    }
}

static void the_preset_of_24x24_crops_cuts_them_unless_something_else_is_asked_for(void **state)
{
    (void)state;
    struct parsed *p = parse_with("{\"model\": \"tf-cifar\"}");
    const struct augment_spec *a = &p->spec.data.augment;
    assert_true(p->rc == 0 && a->crop && a->crop_size[0] == 24 && a->crop_size[1] == 24 &&
                a->crop_padding == 0);
    assert_non_null(json_object_get(json_object_get(p->spec.json, "augment"), "crop"));
    done(p);
    p = parse_with("{\"model\": \"tf-cifar\", \"augment\": {}}");
    assert_true(p->rc == 0 && !p->spec.data.augment.crop);
    done(p);
}

static void what_cannot_be_is_refused_with_its_place(void **state)
{
    (void)state;
    refused("{\"augment\": []}", "/augment", "object");
    refused("{\"augment\": {\"flipp\": {}}}", "/augment/flipp", "did you mean 'flip'");
    refused("{\"augment\": {\"flip\": true}}", "/augment/flip", "object");
    refused("{\"augment\": {\"flip\": {\"probability\": 1.5}}}", "/augment/flip/probability",
            "from 0 to 1");
    refused("{\"augment\": {\"shift\": {\"pixels\": 0}}}", "/augment/shift/pixels",
            "from 1 to 1024");
    refused("{\"augment\": {\"shift\": {\"fill\": \"mirror\"}}}", "/augment/shift/fill",
            "zero|edge");
    refused("{\"augment\": {\"shift\": {\"pixel\": 1}}}", "/augment/shift/pixel",
            "did you mean 'pixels'");
    refused("{\"augment\": {\"crop\": {\"size\": 24}}}", "/augment/crop",
            "a window of 24 x 24 does not fit the network, whose input is 32 x 32");
    refused("{\"augment\": {\"crop\": {\"size\": [32]}}}", "/augment/crop/size", "array of two");
    refused(
        "{\"model\": {\"input\": [8], \"layers\": [{\"type\": \"dense\", \"units\": 2}]}, "
        "\"augment\": {\"crop\": {}}}",
        "/augment/crop", "takes a vector of 8");
    refused("{\"data\": {\"format\": \"cifar-10\", \"path\": \"c\", \"labels\": \"fine\"}}",
            "/data/labels", "not known here");
    refused("{\"data\": {\"format\": \"cifar-100\", \"path\": \"c\", \"labels\": \"all\"}}",
            "/data/labels", "fine|coarse");
    refused("{\"data\": {\"format\": \"cifar-10\", \"path\": \"c\", \"normalize\": \"image\"}}",
            "/data/normalize", "\"picture\"");
    refused("{\"data\": {\"format\": \"cifar-10\", \"path\": \"c\", \"normalize\": {}}}",
            "/data/normalize", "one number per channel");
    refused("{\"data\": {\"format\": \"cifar10\", \"path\": \"c\"}}", "/data/format",
            "did you mean 'cifar-10'");
    refused("{\"data\": {\"format\": \"cifar-10\", \"path\": \"../c\"}}", "/data/path",
            "beneath a data root");
    refused("{\"data\": {\"format\": \"images\", \"path\": \"c\", \"fit\": \"pad\"}}", "/data/fit",
            "crop|stretch");
    refused("{\"data\": {\"format\": \"images\", \"path\": \"c\", \"size\": [1, 2, 3]}}",
            "/data/size", "array of two");
    refused(
        "{\"data\": {\"format\": \"images\", \"path\": \"c\"}, \"model\": {\"input\": [8, 8, 2], "
        "\"layers\": [{\"type\": \"dense\", \"units\": 2}]}}",
        "/data", "1 channel (grey) or 3 (colour), the network's input has 2");
    refused(
        "{\"data\": {\"format\": \"images\", \"path\": \"c\"}, \"model\": {\"input\": [8], "
        "\"layers\": [{\"type\": \"dense\", \"units\": 2}]}}",
        "/data", "'size' must say what pictures become");
}

/* It had a second mistake, "a vector of 0", which disappeared with the first one. */
static void a_network_without_an_input_has_one_fault(void **state)
{
    (void)state;
    struct parsed *p = parse_with(
        "{\"data\": {\"format\": \"images\", \"path\": \"c\"}, \"model\": "
        "{\"input\": [4000, 3000, 3], \"layers\": [{\"type\": \"dense\", \"units\": 2}]}}");
    assert_int_equal(p->problems.count, 1);
    assert_true(has(p, "/model/input", "36000000 elements"));
    done(p);
}

/* A spec after reading it again, as an evaluation does without its padding. */
static void pictures_are_brought_to_what_the_network_takes(void **state)
{
    (void)state;
    static const struct {
        const char *augment, *size;
        int side;
    } cases[] = {
        {"{}", "", 32},
        {"{\"crop\": {}}", "", 37}, /* 32 * 8/7, as 256 for 224 */
        {"{\"crop\": {\"padding\": 4}}", "", 32},
        {"{\"crop\": {}}", ", \"size\": 40", 40},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char patch[300];
        snprintf(patch, sizeof patch,
                 "{\"data\": {\"format\": \"images\", \"path\": \"c\"%s}, \"augment\": %s}",
                 cases[i].size, cases[i].augment);
        struct parsed *p = parse_with(patch), *again = parse_json(p->spec.json);
        const struct data_spec *d = &p->spec.data;
        assert_true(p->rc == 0 && again->rc == 0 && json_equal(p->spec.json, again->spec.json));
        assert_true(d->size[0] == cases[i].side && d->size[1] == cases[i].side);
        assert_true(d->channels == 3 && !d->stretch && d->threads == 2);
        done(again);
        done(p);
    }
}

static void init_is_a_path_or_says_how_it_is_taken(void **state)
{
    (void)state;
    struct parsed *p = parse_with("{\"init\": \"7f/model.safetensors\"}"),
                  *again = parse_json(p->spec.json);
    assert_true(p->rc == 0 && again->rc == 0 && json_equal(p->spec.json, again->spec.json));
    assert_string_equal(again->spec.init, "7f/model.safetensors");
    assert_true(!p->spec.init_how.go_on && p->spec.init_how.n_allow == 0);
    done(again);
    done(p);
    p = parse_with(
        "{\"init\": {\"path\": \"7f/model.safetensors\", \"allow\": [\"fc.*\", "
        "\"bn1.running_mean\"]}}");
    again = parse_json(p->spec.json);
    assert_true(p->rc == 0 && again->rc == 0 && json_equal(p->spec.json, again->spec.json));
    assert_string_equal(again->spec.init, "7f/model.safetensors");
    assert_int_equal(again->spec.init_how.n_allow, 2);
    assert_string_equal(again->spec.init_how.allow[1], "bn1.running_mean");
    done(again);
    done(p);
    p = parse_with("{\"init\": {\"path\": \"7f/checkpoints\", \"continue\": true}}");
    assert_true(p->rc == 0 && p->spec.init_how.go_on);
    done(p);
    refused("{\"init\": {\"allow\": [\"a\"]}}", "/init/path", "needed");
    refused("{\"init\": {\"path\": \"a\", \"alow\": []}}", "/init/alow", "did you mean 'allow'");
    refused("{\"init\": {\"path\": \"a\", \"allow\": \"fc.*\"}}", "/init/allow", "array of names");
    refused("{\"init\": {\"path\": \"a\", \"allow\": [\"\"]}}", "/init/allow", "1 to");
    refused("{\"init\": {\"path\": \"a\", \"allow\": [\"b\"], \"continue\": true}}", "/init/allow",
            "exclude each other");
    refused("{\"init\": [\"a\"]}", "/init", "text");
}

static void a_network_without_data_is_refused(void **state)
{
    struct err e;
    json_t *j = jsonx_parse(example, strlen(example), &e);
    (void)state;
    json_object_del(j, "data");
    refused_with(parse_json(j), "no data", "/data", "needed");
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_format_that_is_named_alone_has_the_defaults_of_its_parameters),
        cmocka_unit_test(augmentation_is_read_key_by_key),
        cmocka_unit_test(a_spec_with_augmentation_parses_to_the_same_again),
        cmocka_unit_test(the_preset_of_24x24_crops_cuts_them_unless_something_else_is_asked_for),
        cmocka_unit_test(what_cannot_be_is_refused_with_its_place),
        cmocka_unit_test(a_network_without_an_input_has_one_fault),
        cmocka_unit_test(pictures_are_brought_to_what_the_network_takes),
        cmocka_unit_test(init_is_a_path_or_says_how_it_is_taken),
        cmocka_unit_test(a_network_without_data_is_refused),
    };
    return cmocka_run_group_tests_name("data and augment", tests, NULL, NULL);
}
