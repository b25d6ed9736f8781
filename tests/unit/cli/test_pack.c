/* Which files of a program's folder are packed, and how (cli/run). `tar` reads the archives, so
 * that our code does not judge its own bytes. */
#include "tests/unit/cli/fixture.h"

#include <limits.h>
#include <sys/stat.h>

#include "cli/run/ignore.h"
#include "cli/run/pack.h"
#include "cli/run/refusals.h"
#include "cli/run/tar.h"

static char dir[PATH_MAX], outside[PATH_MAX];

static void write_at(const char *name, const char *text, mode_t mode)
{
    char path[2 * PATH_MAX], parent[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(proc_mkdirs(parent, 0755, NULL), 0);
    assert_int_equal(proc_write_file(path, text, strlen(text), mode, NULL), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* Files with some content each. */
static void write_each(const char *const *names)
{
    for (; *names; names++) {
        write_at(*names, "x", 0644);
    }
}
#define WRITE(...) write_each((const char *const[]){__VA_ARGS__, NULL})

static void link_at(const char *name, const char *target)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(symlink(target, path), 0);
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(outside, sizeof outside, "/tmp/evenstep-test-XXXXXX");
    if (!mkdtemp(outside)) {
        return -1;
    }
    snprintf(dir, sizeof dir, "%.4000s/program", outside);
    write_at("train.py", "print(1)\n", 0644);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    return proc_remove_tree(outside, NULL);
}

static void run_program(const char *const *argv, char *out, size_t bytes)
{
    struct err e = {0};
    assert_int_equal(proc_output(argv, 20, out, bytes, &e), 0);
}

/* The packed folder's paths as `tar -t` lists them. */
static void assert_packed(const char *expected)
{
    char archive[2 * PATH_MAX], listed[4096];
    struct pack p;
    struct err e = {0};
    const char *const argv[] = {"tar", "-tf", archive, NULL};
    assert_int_equal(pack_folder(&p, dir, "train.py", NULL, &e), 0);
    snprintf(archive, sizeof archive, "%s/a.tar", outside);
    assert_int_equal(proc_write_file(archive, p.bytes, p.n, 0600, NULL), 0);
    run_program(argv, listed, sizeof listed);
    assert_string_equal(listed, expected);
    pack_release(&p);
}

static void assert_refused(enum err_code code, const char *part)
{
    struct pack p;
    struct err e = {0};
    assert_int_equal(pack_folder(&p, dir, "train.py", NULL, &e), -(int)code);
    assert_said(e.message, part);
    assert_null(p.bytes);
    pack_release(&p);
}

/* ---- what is packed -------------------------------------------------------------------------- */

static void files_are_packed_in_the_order_of_their_paths(void **state)
{
    (void)state;
    WRITE("lib/model.py", "lib-old.py", "Zoo/a");
    assert_packed("Zoo/a\nlib-old.py\nlib/model.py\ntrain.py\n");
}

static void what_no_program_needs_is_left_out(void **state)
{
    (void)state;
    WRITE(".git/config", "__pycache__/train.pyc", "lib/old.pyc", "evenstep-data/token",
          "env/pyvenv.cfg", "env/bin/python");
    assert_packed("train.py\n");
}

static void the_ignore_file_leaves_out_names_paths_and_folders(void **state)
{
    (void)state;
    write_at(".evenstepignore", "# data\n*.bin\n/top.txt\ncache/\nruns/*/big \n\n", 0644);
    WRITE("a.bin", "lib/b.bin", "top.txt", "lib/top.txt", "lib/cache/c", "cached", "runs/1/big/d",
          "runs/big");
    assert_packed(".evenstepignore\ncached\nlib/top.txt\nruns/big\ntrain.py\n");
}

static void a_pattern_that_takes_back_is_refused(void **state)
{
    (void)state;
    write_at(".evenstepignore", "*.bin\n!a.bin\n", 0644);
    assert_refused(ERR_INVALID, "'!a.bin': patterns that begin with ! are not supported");
}

static void git_says_which_files_and_new_ones_are_among_them(void **state)
{
    char path[2 * PATH_MAX], said[1000];
    const char *const init[] = {"git", "init", "-q", dir, NULL};
    const char *const add[] = {"git", "-C", dir, "add", "train.py", "gone.py", ".gitignore", NULL};
    (void)state;
    write_at(".gitignore", "*.ckpt\n", 0644);
    WRITE("gone.py", "model.ckpt", "new.py", "large.npy");
    write_at(".evenstepignore", "*.npy\n", 0644);
    run_program(init, said, sizeof said);
    run_program(add, said, sizeof said);
    snprintf(path, sizeof path, "%s/gone.py", dir);
    assert_int_equal(unlink(path), 0);
    assert_packed(".evenstepignore\n.gitignore\nnew.py\ntrain.py\n");
}

static void a_repository_within_is_asked_for_its_own_files(void **state)
{
    char inner[2 * PATH_MAX], said[1000];
    const char *const init[] = {"git", "init", "-q", dir, NULL};
    const char *const init_inner[] = {"git", "init", "-q", inner, NULL};
    (void)state;
    snprintf(inner, sizeof inner, "%s/lib/sub", dir);
    write_at("lib/sub/.gitignore", "*.ckpt\n", 0644);
    WRITE("lib/sub/model.ckpt", "lib/sub/a b/c.py");
    run_program(init, said, sizeof said);
    run_program(init_inner, said, sizeof said);
    setenv("GIT_DIR", "/nowhere", 1); /* as a hook has it */
    assert_packed("lib/sub/.gitignore\nlib/sub/a b/c.py\ntrain.py\n");
    unsetenv("GIT_DIR");
}

static void an_ignore_file_that_is_a_pipe_is_refused_and_hangs_nobody(void **state)
{
    char path[2 * PATH_MAX];
    (void)state;
    snprintf(path, sizeof path, "%s/.evenstepignore", dir);
    assert_int_equal(mkfifo(path, 0644), 0);
    alarm(20);
    assert_refused(ERR_INVALID, "is not a file");
    alarm(0);
}

static void too_many_files_name_the_folder_that_has_most(void **state)
{
    char name[40];
    (void)state;
    write_at("few/1", "", 0644);
    for (int i = 0; i < 10001; i++) {
        snprintf(name, sizeof name, "many/%d/x", i / 100 * 1000 + i);
        write_at(name, "", 0644);
    }
    assert_refused(ERR_TOO_LARGE, "more than 10000 files; of the files that were found");
    assert_refused(ERR_TOO_LARGE, "are in 'many'");
}

static void the_systems_folders_are_no_projects(void **state)
{
    (void)state;
    for (const char *const *one = (const char *const[]){"/", "/etc", "/usr/lib/python3", "/home",
                                                        "/proc/1", "/var", NULL};
         *one; one++) {
        assert_string_equal(refusal_of_folder(*one), "it is the system's");
    }
    for (const char *const *one = (const char *const[]){"/srv/train", "/usr/src/net", "/etcetera",
                                                        "/opt/net", "/usr/local/share/net", NULL};
         *one; one++) {
        assert_null(refusal_of_folder(*one));
    }
}

static void a_file_that_cannot_be_executed_is_told(void **state)
{
    char path[2 * PATH_MAX];
    (void)state;
    snprintf(path, sizeof path, "%s/run", dir);
    write_at("run", "vm\n", 0755);
    assert_said(refusal_of_program(path), "neither a script");
    write_at("run", "#!/bin/sh\n", 0755);
    assert_null(refusal_of_program(path));
    assert_null(refusal_of_program("/bin/sh"));
}

static void results_that_go_into_the_folder_are_not_packed(void **state)
{
    char results[2 * PATH_MAX];
    struct pack p;
    (void)state;
    write_at("out/model.pt", "x", 0644);
    snprintf(results, sizeof results, "%s/out", dir);
    assert_int_equal(pack_folder(&p, dir, "train.py", results, NULL), 0);
    assert_int_equal(p.files, 1);
    pack_release(&p);
}

/* ---- links ----------------------------------------------------------------------------------- */

static void a_link_within_the_folder_goes_as_its_file(void **state)
{
    (void)state;
    write_at("lib/model.py", "", 0644);
    link_at("model.py", "lib/model.py");
    assert_packed("lib/model.py\nmodel.py\ntrain.py\n");
}

static void a_link_that_leaves_the_folder_is_refused(void **state)
{
    (void)state;
    link_at("passwords", "/etc/passwd");
    assert_refused(ERR_DATA,
                   "the link 'passwords' cannot be packed: it leaves the program's folder");
    write_at(".evenstepignore", "passwords\n", 0644);
    assert_packed(".evenstepignore\ntrain.py\n");
}

static void links_to_folders_and_to_nothing_are_refused(void **state)
{
    (void)state;
    link_at("loop", ".");
    assert_refused(ERR_DATA, "'loop'");
    write_at(".evenstepignore", "loop\n", 0644);
    link_at("nothing", "nowhere");
    assert_refused(ERR_DATA, "the link 'nothing' cannot be packed: it leads nowhere");
}

/* ---- sizes and bytes ------------------------------------------------------------------------- */

static void too_large_a_folder_names_its_largest_files(void **state)
{
    char path[2 * PATH_MAX];
    (void)state;
    write_at("a.bin", "", 0644);
    write_at("b.bin", "", 0644);
    snprintf(path, sizeof path, "%s/a.bin", dir);
    assert_int_equal(truncate(path, 40 << 20), 0);
    snprintf(path, sizeof path, "%s/b.bin", dir);
    assert_int_equal(truncate(path, 30 << 20), 0);
    assert_refused(ERR_TOO_LARGE,
                   "at most 64 MiB can be sent; its largest files: a.bin (40.0 MiB), "
                   "b.bin (30.0 MiB), train.py (0.0 MiB)");
}

static void the_program_itself_must_be_among_the_files(void **state)
{
    (void)state;
    write_at(".evenstepignore", "*.py\n", 0644);
    assert_refused(ERR_INVALID, "'train.py' itself would not be packed");
}

static void the_same_files_give_the_same_bytes(void **state)
{
    struct pack first, second;
    struct timespec times[2] = {{1000, 0}, {1000, 0}};
    char path[2 * PATH_MAX];
    (void)state;
    write_at("run.sh", "#!/bin/sh\n", 0755);
    assert_int_equal(pack_folder(&first, dir, "train.py", NULL, NULL), 0);
    snprintf(path, sizeof path, "%s/train.py", dir);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(pack_folder(&second, dir, "train.py", NULL, NULL), 0);
    assert_int_equal(first.n, second.n);
    assert_memory_equal(first.bytes, second.bytes, first.n);
    pack_release(&second);
    assert_int_equal(chmod(path, 0700), 0); /* whether it can be executed is a part of it */
    assert_int_equal(pack_folder(&second, dir, "train.py", NULL, NULL), 0);
    assert_memory_not_equal(first.bytes, second.bytes, first.n);
    pack_release(&second);
    pack_release(&first);
}

static void contents_and_modes_come_out_as_they_went_in(void **state)
{
    char archive[2 * PATH_MAX], into[2 * PATH_MAX], said[1000], path[4 * PATH_MAX];
    struct stat st;
    struct pack p;
    const char *const argv[] = {"tar", "-xf", archive, "-C", into, NULL};
    (void)state;
    write_at("run.sh", "#!/bin/sh\n", 0755);
    write_at("empty", "", 0644);
    assert_int_equal(pack_folder(&p, dir, "train.py", NULL, NULL), 0);
    snprintf(archive, sizeof archive, "%s/a.tar", outside);
    snprintf(into, sizeof into, "%s/into", outside);
    assert_int_equal(proc_mkdirs(into, 0755, NULL), 0);
    assert_int_equal(proc_write_file(archive, p.bytes, p.n, 0600, NULL), 0);
    run_program(argv, said, sizeof said);
    snprintf(path, sizeof path, "%s/run.sh", into);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_mode & S_IXUSR);
    snprintf(path, sizeof path, "%s/train.py", into);
    char *text = proc_read_file(path, 1000, NULL, NULL);
    assert_string_equal(text, "print(1)\n");
    free(text);
    pack_release(&p);
}

/* 100 characters fit into a header, 255 into its two parts if a slash is at the right place; longer
 * names are in a header of their own. */
static void long_paths_come_out_whole(void **state)
{
    char name[400], listed[4096], archive[2 * PATH_MAX];
    const char *const argv[] = {"tar", "-tf", archive, NULL};
    (void)state;
    snprintf(archive, sizeof archive, "%s/a.tar", outside);
    for (int n = 95; n < 300; n++) {
        struct buf b;
        buf_init(&b, 1 << 20);
        for (int slash = 0; slash < 2; slash++) {
            memset(name, 'a' + slash, (size_t)n);
            name[slash ? n / 2 : 0] = slash ? '/' : 'a';
            name[n] = '\0';
            size_t before = b.len;
            tar_add(&b, name, false, "x", 1);
            assert_int_equal(b.len - before, tar_bytes(name, 1));
        }
        tar_end(&b);
        assert_int_equal(proc_write_file(archive, b.data, b.len, 0600, NULL), 0);
        if (n % 20 == 0 || n == 95 || (n > 98 && n < 103) || n > 252) {
            run_program(argv, listed, sizeof listed);
            assert_int_equal(strlen(listed), 2 * n + 2);
            assert_memory_equal(listed + n + 1, name, n);
        }
        buf_release(&b);
    }
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(files_are_packed_in_the_order_of_their_paths),
        IN_A_FOLDER(what_no_program_needs_is_left_out),
        IN_A_FOLDER(the_ignore_file_leaves_out_names_paths_and_folders),
        IN_A_FOLDER(a_pattern_that_takes_back_is_refused),
        IN_A_FOLDER(git_says_which_files_and_new_ones_are_among_them),
        IN_A_FOLDER(a_repository_within_is_asked_for_its_own_files),
        IN_A_FOLDER(an_ignore_file_that_is_a_pipe_is_refused_and_hangs_nobody),
        IN_A_FOLDER(too_many_files_name_the_folder_that_has_most),
        IN_A_FOLDER(the_systems_folders_are_no_projects),
        IN_A_FOLDER(a_file_that_cannot_be_executed_is_told),
        IN_A_FOLDER(results_that_go_into_the_folder_are_not_packed),
        IN_A_FOLDER(a_link_within_the_folder_goes_as_its_file),
        IN_A_FOLDER(a_link_that_leaves_the_folder_is_refused),
        IN_A_FOLDER(links_to_folders_and_to_nothing_are_refused),
        IN_A_FOLDER(too_large_a_folder_names_its_largest_files),
        IN_A_FOLDER(the_program_itself_must_be_among_the_files),
        IN_A_FOLDER(the_same_files_give_the_same_bytes),
        IN_A_FOLDER(contents_and_modes_come_out_as_they_went_in),
        IN_A_FOLDER(long_paths_come_out_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
