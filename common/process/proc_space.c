/* Where a process number means the same process (proc.h): within one boot of the kernel and one pid
 * namespace. In another container, on another host or after a reboot, the same number is another
 * process or none.
 */
#include "common/process/proc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void proc_boot(char out[PROC_BOOT])
{
    char *boot = proc_read_file("/proc/sys/kernel/random/boot_id", 64, NULL, NULL);
    snprintf(out, PROC_BOOT, "%.36s", boot ? boot : "");
    out[strcspn(out, "\n")] = '\0';
    free(boot);
}

void proc_space(char out[PROC_SPACE])
{
    struct stat ns = {0};
    char boot[PROC_BOOT];
    proc_boot(boot);
    stat("/proc/self/ns/pid", &ns);
    snprintf(out, PROC_SPACE, "%s-%" PRIuMAX, boot, (uintmax_t)ns.st_ino);
}
