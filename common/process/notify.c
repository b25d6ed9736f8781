/* See notify.h. */
#include "common/process/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (n == 0 || n >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) {
        return;
    }
    memcpy(to.sun_path, path, n);
    if (path[0] == '@') {
        to.sun_path[0] = '\0'; /* an abstract address */
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
        ssize_t ignored = sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
                                 (struct sockaddr *)&to, length);
        (void)ignored;
        close(fd);
    }
}
