/* Exit statuses of every command, the one list: --help, the manual and docs/configuration.md print
 * it. A command that a signal ends has 128 and the signal's number, as in a shell. */
#ifndef CLI_STATUS_H
#define CLI_STATUS_H

#define STATUSES(X)                                                                            \
    X(DONE, 0, "done; a job that was waited for succeeded")                                    \
    X(FAILED, 1, "the job failed, no model was evaluated, or --check saw a difference")        \
    X(USAGE, 2, "used wrongly: a command, an option, a file, an address, a name, or no token") \
    X(UNREACHABLE, 3, "no service: nobody answers at the address")                             \
    X(CANCELLED, 4, "the job was cancelled")                                                   \
    X(NOT_WRITTEN, 5, "files could not be brought back or written")                            \
    X(NOT_FOUND, 6, "there is no such job, node, artifact or program")                         \
    X(REFUSED, 7, "the service refused: the token's role, the state, or the document")

enum status {
#define X(name, number, help) STATUS_##name = (number),
    STATUSES(X)
#undef X
        STATUS_SIGNALLED = 128 /* and the signal's number */
};

#endif
