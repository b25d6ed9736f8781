/* Archives of programs: what is read, what is refused with its name, and that the digest covers the
 * contents. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/archive/archive.h"
#include "common/process/proc.h"
#include "common/archive/tar.h"

enum { ENTRIES = 300 };
static struct err err_;

/* An archive under construction. */
struct tape {
    char bytes[6 << 20];
    size_t n;
};

/* A header; its checksum is right. */
static void put_header(struct tape *t, const char *name, char type, int mode, size_t size)
{
    char *h = t->bytes + t->n;
    unsigned sum = 0;
    memset(h, 0, 512);
    memcpy(h, name, strnlen(name, 100));
    snprintf(h + 100, 8, "%07o", mode);
    snprintf(h + 124, 12, "%011zo", size);
    memset(h + 148, ' ', 8);
    h[156] = type;
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) {
        sum += (unsigned char)h[i];
    }
    snprintf(h + 148, 8, "%06o", sum);
    t->n += 512;
}

static void put_entry(struct tape *t, const char *name, char type, int mode, const char *text)
{
    size_t n = strlen(text), filled = (n + 511) / 512 * 512;
    put_header(t, name, type, mode, n);
    memset(t->bytes + t->n, 0, filled);
    memcpy(t->bytes + t->n, text, n);
    t->n += filled;
}

static void put_file(struct tape *t, const char *name, const char *text)
{
    put_entry(t, name, '0', 0644, text);
}

/* A file with a name that no header holds. */
static void put_long(struct tape *t, const char *name, const char *text)
{
    put_entry(t, "././@LongLink", 'L', 0644, name);
    put_file(t, "cut", text);
}

static void put_end(struct tape *t)
{
    memset(t->bytes + t->n, 0, 1024);
    t->n += 1024;
}

static struct tape *tape_new(void)
{
    return calloc(1, sizeof(struct tape));
}

static int read_tape(const struct tape *t, const char *into, struct archive *out,
                     struct jsonx_problems *problems)
{
    FILE *f = fmemopen((void *)(uintptr_t)t->bytes, t->n, "rb");
    int rc = archive_read(f, into, ENTRIES, out, problems, &err_);
    fclose(f);
    return rc;
}

/* The digest of a sound archive; the tape is freed. */
static void digest_of(struct tape *t, char out[ARCHIVE_HEX])
{
    struct archive a;
    struct jsonx_problems problems = {0};
    put_end(t);
    assert_int_equal(read_tape(t, NULL, &a, &problems), 0);
    assert_int_equal(problems.count, 0);
    memcpy(out, a.digest, ARCHIVE_HEX);
    archive_release(&a);
    free(t);
}

static char *text_of(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return proc_read_file(path, 1 << 16, NULL, NULL);
}

static void files_and_folders_are_unpacked(void **state)
{
    struct tape *t = tape_new();
    struct archive a;
    struct jsonx_problems problems = {0};
    struct stat st;
    char folder[] = "/tmp/evenstep-test-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    put_entry(t, "./", '5', 0755, "");
    put_file(t, "./train.py", "print(1)\n");
    put_entry(t, "lib", '5', 0755, "");
    put_entry(t, "lib/run", '0', 0755, "#!/bin/sh\n");
    put_file(t, "empty", "");
    put_file(t, ARCHIVE_MANIFEST, "{\"command\": [\"./lib/run\"]}");
    put_end(t);
    assert_int_equal(read_tape(t, folder, &a, &problems), 0);
    assert_int_equal(problems.count, 0);
    assert_int_equal(a.files, 4);
    assert_int_equal(a.bytes, 9 + 10 + 26);
    assert_true(archive_is_digest(a.digest));
    assert_string_equal(a.manifest, "{\"command\": [\"./lib/run\"]}");
    char *text = text_of(folder, "train.py");
    assert_string_equal(text, "print(1)\n");
    free(text);
    snprintf(path, sizeof path, "%s/lib/run", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/empty", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 0);
    archive_release(&a);
    proc_remove_tree(folder, NULL);
    free(t);
}

/* As docs/own-program-run.md describes it, so that others can compute it. */
static void the_digest_is_of_the_contents(void **state)
{
    char first[ARCHIVE_HEX], other[ARCHIVE_HEX];
    struct tape *t = tape_new();
    put_file(t, "b", "2");
    put_file(t, "a", "1");
    digest_of(t, first);
    /* of the lines "SHA-256 of '1' - 1 a\n" and "SHA-256 of '2' - 1 b\n" */
    assert_string_equal(first, "984b6e1596a6517b6d114151b86bc944753b2cbecad70b431408306f1b873412");
    t = tape_new();
    put_entry(t, "./a", '0', 0600, "1");
    put_entry(t, "none", '5', 0755, "");
    put_entry(t, "b", '0', 0664, "2");
    digest_of(t, other);
    assert_string_equal(first, other);
    t = tape_new();
    put_entry(t, "a", '0', 0755, "1");
    put_file(t, "b", "2");
    digest_of(t, other);
    assert_string_not_equal(first, other);
}

static void long_names_come_in_both_forms(void **state)
{
    char name[301] = "", record[400], first[ARCHIVE_HEX], other[ARCHIVE_HEX];
    while (strlen(name) < 290) {
        snprintf(name + strlen(name), sizeof name - strlen(name), "folder-%02zu/",
                 strlen(name) / 10);
    }
    strncat(name, "file", 10);
    snprintf(record, sizeof record, "%zu path=%s\n", strlen(name) + 10, name);
    struct tape *t = tape_new();
    put_entry(t, "PaxHeader", 'x', 0644, record);
    put_file(t, "cut", "text");
    put_file(t, "short", "");
    digest_of(t, first);
    t = tape_new();
    put_long(t, name, "text");
    put_file(t, "short", "");
    digest_of(t, other);
    assert_string_equal(first, other);
}

static bool tells(const struct jsonx_problems *p, const char *text)
{
    for (int i = 0; i < p->count; i++) {
        if (strstr(p->items[i].message, text)) {
            return true;
        }
    }
    return false;
}

static void every_refused_entry_is_told_with_its_name(void **state)
{
    static const struct {
        const char *name;
        char type;
        int mode;
        const char *told;
    } cases[] = {
        {"../up", '0', 0644, "'../up' has a name with '.', '..'"},
        {"a/../../up", '0', 0644, "'a/../../up' has a name with '.', '..'"},
        {"a//b", '0', 0644, "'a//b' has a name with"},
        {"/etc/passwd", '0', 0644, "'/etc/passwd' has an absolute name"},
        {"soft", '2', 0777, "'soft' is a symbolic link"},
        {"hard", '1', 0644, "'hard' is a hard link"},
        {"tty", '3', 0644, "'tty' is a character device"},
        {"disk", '4', 0644, "'disk' is a block device"},
        {"pipe", '6', 0644, "'pipe' is a named pipe"},
        {"what", 'Z', 0644, "'what' is neither a plain file nor a folder"},
        {"su", '0', 04755, "'su' is set-uid"},
        {"sg", '0', 02755, "'sg' is set-uid"},
        {"line\nbreak", '0', 0644, "'line\\u000abreak' has a name that is not UTF-8"},
        {"\xff", '0', 0644, "'\\xff' has a name that is not UTF-8"},
        {"x\xe2\x80\xaeyp.exe", '0', 0644, "'x\\u202eyp.exe' has a name that is not UTF-8"},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    struct tape *t = tape_new();
    struct archive a;
    struct jsonx_problems problems = {0};
    for (int i = 0; i < CASES; i++) {
        put_entry(t, cases[i].name, cases[i].type, cases[i].mode, "text");
    }
    put_end(t);
    assert_int_equal(read_tape(t, NULL, &a, &problems), 0);
    for (int i = 0; i < CASES; i++) {
        assert_true(tells(&problems, cases[i].told));
    }
    assert_int_equal(problems.count, CASES);
    assert_string_equal(a.digest, "");
    archive_release(&a);
    jsonx_problems_release(&problems);
    free(t);
}

/* Also where the archive is unpacked meanwhile, whose disk refuses the second of two. */
static void names_that_exclude_each_other_are_problems_and_no_errors(void **state)
{
    char folder[] = "/tmp/evenstep-test-XXXXXX", part[301];
    struct tape *t = tape_new();
    snprintf(part, sizeof part, "%0300d", 0);
    put_file(t, "twice", "1");
    put_file(t, "twice", "2");
    put_file(t, "file", "1");
    put_file(t, "file-2", "1");
    put_file(t, "file/beneath", "1");
    put_file(t, "last/far/beneath", "1");
    put_file(t, "last", "1");
    put_long(t, part, "1");
    put_end(t);
    for (int unpacks = 0; unpacks < 2; unpacks++) {
        struct archive a;
        struct jsonx_problems problems = {0};
        assert_non_null(unpacks ? mkdtemp(folder) : folder);
        assert_int_equal(read_tape(t, unpacks ? folder : NULL, &a, &problems), 0);
        assert_true(tells(&problems, "'twice' occurs twice"));
        assert_true(tells(&problems, "'file/beneath' is beneath one that is a plain file"));
        assert_true(tells(&problems, "'last/far/beneath' is beneath one that is a plain file"));
        assert_true(tells(&problems, "has too long a name"));
        assert_int_equal(problems.count, 4);
        assert_string_equal(a.digest, "");
        archive_release(&a);
        jsonx_problems_release(&problems);
    }
    proc_remove_tree(folder, NULL);
    free(t);
}

static void refused(const struct tape *t, enum err_code code, const char *why)
{
    struct archive a;
    struct jsonx_problems problems = {0};
    assert_int_equal(read_tape(t, NULL, &a, &problems), -(int)code);
    assert_non_null(strstr(err_.message, why));
    archive_release(&a);
    jsonx_problems_release(&problems);
}

static void a_malformed_archive_says_where(void **state)
{
    struct tape *t = tape_new();
    put_file(t, "a", "text");
    put_end(t);
    size_t whole = t->n;
    t->n = 700;
    refused(t, ERR_SYNTAX, "ends in the middle of an entry (byte 700)");
    t->n = 1024; /* an archive that stops between two entries is cut, too */
    refused(t, ERR_SYNTAX, "ends in the middle");
    t->n = whole;
    t->bytes[0] = 'b';
    refused(t, ERR_SYNTAX, "checksum");
    t->bytes[0] = 'a';
    t->bytes[1600] = 1;
    refused(t, ERR_SYNTAX, "something follows its end");
    memcpy(t->bytes, "\x1f\x8b\x08", 3);
    refused(t, ERR_SYNTAX, "compressed");
    assert_non_null(strstr(err_.hint, "gzip"));
    t->n = 0;
    put_end(t);
    refused(t, ERR_DATA, "no file");
    t->n = 0;
    put_entry(t, "PaxHeader", 'x', 0644, "99 path=a\n");
    put_file(t, "a", "text");
    put_end(t);
    refused(t, ERR_SYNTAX, "pax header");
    free(t);
}

static void entries_are_counted(void **state)
{
    struct tape *t = tape_new();
    struct archive a;
    struct jsonx_problems problems = {0};
    char name[20];
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(name, sizeof name, "f%d", i);
        put_header(t, name, '0', 0644, 0);
    }
    put_end(t);
    assert_int_equal(read_tape(t, NULL, &a, &problems), 0);
    assert_int_equal(a.files, ENTRIES);
    archive_release(&a);
    t->n -= 1024;
    put_header(t, "one-more", '0', 0644, 0);
    put_end(t);
    refused(t, ERR_TOO_LARGE, "more than 300 entries");
    free(t);
}

/* Each of these files is in 200 folders that no other file is in. */
static void folders_that_only_names_tell_of_are_counted(void **state)
{
    char folder[] = "/tmp/evenstep-test-XXXXXX", name[420] = "0";
    struct tape *t = tape_new();
    struct archive a;
    struct jsonx_problems problems = {0};
    for (int i = 0; i < 200; i++) {
        snprintf(name + strlen(name), sizeof name - strlen(name), "/d");
    }
    for (int files = 1; files <= 2; files++, name[0]++) {
        t->n -= files > 1 ? 1024 : 0;
        put_long(t, name, "");
        put_end(t);
        if (files == 1) {
            assert_int_equal(read_tape(t, NULL, &a, &problems), 0);
            archive_release(&a);
        }
    }
    refused(t, ERR_TOO_LARGE, "more than 300 folders");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(read_tape(t, folder, &a, &problems), -ERR_TOO_LARGE);
    assert_int_equal(problems.count, 0);
    archive_release(&a);
    proc_remove_tree(folder, NULL);
    free(t);
}

static void an_archive_of_another_digest_is_not_taken(void **state)
{
    struct tape *t = tape_new();
    char folder[] = "/tmp/evenstep-test-XXXXXX", path[64], into[64];
    char zeros[ARCHIVE_HEX] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.tar", folder);
    snprintf(into, sizeof into, "%s/into", folder);
    put_file(t, "a", "text");
    put_end(t);
    assert_int_equal(proc_write_file(path, t->bytes, t->n, 0600, &err_), 0);
    memset(zeros, '0', ARCHIVE_HEX - 1);
    assert_int_equal(archive_unpack(path, zeros, into, &err_), -ERR_DATA);
    assert_non_null(strstr(err_.message, "does not have the digest"));
    proc_remove_tree(folder, NULL);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_folders_are_unpacked),
        cmocka_unit_test(the_digest_is_of_the_contents),
        cmocka_unit_test(long_names_come_in_both_forms),
        cmocka_unit_test(every_refused_entry_is_told_with_its_name),
        cmocka_unit_test(names_that_exclude_each_other_are_problems_and_no_errors),
        cmocka_unit_test(a_malformed_archive_says_where),
        cmocka_unit_test(entries_are_counted),
        cmocka_unit_test(folders_that_only_names_tell_of_are_counted),
        cmocka_unit_test(an_archive_of_another_digest_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
