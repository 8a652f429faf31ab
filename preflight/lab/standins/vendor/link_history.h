/* STAND-IN: what a device remembers of its link since it was switched on, or since that was cleared.
 *
 * The kernel counts how often a link came and went, and does not say when. watch_links is told of each change and dates
 * it; a caller who is earlier than that finds the change in the kernel's counts and dates it himself.
 *
 * LAB_PRIVATE/link/N: "kernel UPS DOWNS" as counted when the file was written, "counted UPS DOWNS" of this device, then
 * a line a change, "SECONDS UP" or "SECONDS DOWN", oldest first.
 */
#ifndef LINK_HISTORY_H
#define LINK_HISTORY_H

#include <stdbool.h>
#include <time.h>

#define LINK_CHANGES 64

struct link_change {
    time_t at;
    bool up;
};

struct link_history {
    unsigned long kernel_ups, kernel_downs;
    unsigned long ups, downs;
    int count; /* of the changes that are remembered, the latest */
    struct link_change changes[LINK_CHANGES];
};

/* Each returns 0, or -1 with errno. The first is for a device that is switched on: its link coming up is a change. */
int link_history_begin(int device);
int link_history_update(int device, struct link_history *history);
int link_history_clear(int device);

#endif
