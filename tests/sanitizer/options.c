/* What every program of a sanitizer's build has in it (SANITIZE=…, the Makefile): where reports go,
 * and what is not ours.
 *
 * It is in the programs and not in ASAN_OPTIONS, because not every process inherits an environment:
 * an agent gives its daemons a short list, the tests of it start others under `unshare`. So whoever
 * dies with a report, wherever, leaves it in SANITIZER_REPORTS (tests/run counts each as a failure
 * of the suite), also when nobody looks at its standard error or its exit code. ASAN_OPTIONS and
 * the like still win.
 *
 * `dlclose` does nothing here. Open MPI unloads its plug-ins in MPI_Finalize; a leak or a race in
 * one would then have a stack of bare addresses, which no suppression can name, and ours could not
 * be told from theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define REPORTS(kind) "log_path=" SANITIZER_REPORTS "/" kind ":log_exe_name=1:"

const char *__asan_default_options(void);
const char *__lsan_default_suppressions(void);
const char *__ubsan_default_options(void);
void __ubsan_get_current_report_data(const char **kind, const char **message, const char **file,
                                     unsigned *line, unsigned *column, char **address)
    __attribute__((weak));
void __ubsan_on_report(void);
const char *__tsan_default_options(void);
const char *__tsan_default_suppressions(void);
int dlclose(void *library);
extern int MPI_Init(int *argc, char ***argv) __attribute__((weak)); /* in programs that link MPI */

const char *__asan_default_options(void)
{
    return REPORTS("asan") "detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1:"
                           "print_suppressions=0";
}

/* Open MPI and what it stands on keep memory to the end. Its plug-ins' asprintf hides its caller
 * from the unwinder; our own uses are in programs without MPI (agent, coordinator), where nothing
 * is suppressed. A sum that was given up when a worker was lost leaves its chunk to the message
 * that may still come (allreduce_cancel). */
const char *__lsan_default_suppressions(void)
{
    if (!MPI_Init) {
        return "";
    }
    return "leak:libmpi.so\nleak:libopen-rte.so\nleak:libopen-pal.so\nleak:libpmix.so\n"
           "leak:libhwloc.so\nleak:libevent\n"
           "leak:/openmpi/lib/\nleak:/pmix\nleak:__vasprintf_internal\nleak:allreduce_start_from\n";
}

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1";
}

/* gcc's runtime for undefined behaviour prints to standard error alone as soon as
 * AddressSanitizer's is there too: so this keeps a line. */
void __ubsan_on_report(void)
{
    const char *kind = "", *message = "", *file = "";
    unsigned line = 0, column = 0;
    char path[4096], *address = NULL;
    if (__ubsan_get_current_report_data) {
        __ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
    }
    snprintf(path, sizeof(path), SANITIZER_REPORTS "/ubsan.%s.%ld", program_invocation_short_name,
             (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        dprintf(fd, "%s:%u:%u: %s: %s\n", file, line, column, kind, message);
        close(fd);
    }
}

/* A rank that failed ends by MPI_Abort, and waits for none of its threads. */
const char *__tsan_default_options(void)
{
    return REPORTS("tsan") "second_deadlock_stack=1:report_thread_leaks=0";
}

/* Open MPI's TCP transport takes the locks of an endpoint and of its process in one order when
 * peers are made known and in the other when they go: both on the thread that starts and stops MPI,
 * so they never wait for each other. One test calls MPI's collectives beside the exchange thread,
 * and MPI orders the two by counters that the sanitizer does not see. */
const char *__tsan_default_suppressions(void)
{
    return "deadlock:mca_btl_tcp.so\nrace:test_sockets.c\n";
}

int dlclose(void *library)
{
    (void)library;
    return 0;
}
