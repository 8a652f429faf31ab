/* STAND-IN: see link_history.h. */
#include "link_history.h"
#include "lab.h"
#include "nic.h"

#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define OLDER 300 /* seconds that a device has been on for when its host comes up: ports settle in their first minute */

static FILE *open_locked(int device)
{
    char path[64];
    snprintf(path, sizeof path, LAB_PRIVATE "/link/%d", device);
    FILE *file = fopen(path, "a+e");
    if (file != NULL)
        flock(fileno(file), LOCK_EX);
    return file;
}

static bool read_history(FILE *file, struct link_history *history)
{
    long at;
    char word[8];
    memset(history, 0, sizeof *history);
    rewind(file);
    if (fscanf(file, "kernel %lu %lu counted %lu %lu", &history->kernel_ups, &history->kernel_downs, &history->ups,
               &history->downs) != 4)
        return false;
    while (history->count < LINK_CHANGES && fscanf(file, "%ld %7s", &at, word) == 2)
        history->changes[history->count++] = (struct link_change){at, strcmp(word, "UP") == 0};
    return true;
}

static int write_history(FILE *file, const struct link_history *history)
{
    if (ftruncate(fileno(file), 0) != 0)
        return -1;
    fprintf(file, "kernel %lu %lu\ncounted %lu %lu\n", history->kernel_ups, history->kernel_downs, history->ups,
            history->downs);
    for (int i = 0; i < history->count; i++)
        fprintf(file, "%ld %s\n", (long)history->changes[i].at, history->changes[i].up ? "UP" : "DOWN");
    return fflush(file);
}

static void append(struct link_history *history, bool up, time_t at)
{
    if (history->count == LINK_CHANGES)
        memmove(history->changes, history->changes + 1, --history->count * sizeof history->changes[0]);
    history->changes[history->count++] = (struct link_change){at, up};
    *(up ? &history->ups : &history->downs) += 1;
}

/* The changes since the file was written took turns, and the last of them led to what the link is now. */
static void catch_up(struct link_history *history, const struct nic_carrier *now)
{
    unsigned long changes = now->ups - history->kernel_ups + now->downs - history->kernel_downs;
    if (changes > LINK_CHANGES) /* older ones are forgotten, but counted */
        changes = LINK_CHANGES;
    unsigned long ups = history->ups + now->ups - history->kernel_ups;
    unsigned long downs = history->downs + now->downs - history->kernel_downs;
    for (unsigned long left = changes; left > 0; left--)
        append(history, (left % 2 == 1) == now->up, time(NULL));
    history->ups = ups;
    history->downs = downs;
    history->kernel_ups = now->ups;
    history->kernel_downs = now->downs;
}

static int carrier_of(int device, struct nic_carrier *carrier)
{
    char interface[16];
    snprintf(interface, sizeof interface, "eth%d", device);
    if (lab_enter_device(device) != 0)
        return -1;
    int result = nic_read_carrier(interface, carrier);
    lab_leave_device();
    return result;
}

static int rewrite(int device, bool keep, bool switched_on, struct link_history *history)
{
    struct nic_carrier now;
    FILE *file = open_locked(device);
    if (file == NULL)
        return -1;
    int result = carrier_of(device, &now);
    if (result == 0) {
        bool known = read_history(file, history);
        if (!known || !keep) {
            *history = (struct link_history){.kernel_ups = now.ups, .kernel_downs = now.downs};
            if (switched_on && now.up)
                append(history, true, time(NULL) - OLDER);
        }
        catch_up(history, &now);
        result = write_history(file, history);
    }
    fclose(file);
    return result;
}

int link_history_begin(int device)
{
    struct link_history history;
    return rewrite(device, false, true, &history);
}

int link_history_update(int device, struct link_history *history)
{
    return rewrite(device, true, true, history);
}

int link_history_clear(int device)
{
    struct link_history history;
    return rewrite(device, false, false, &history);
}
