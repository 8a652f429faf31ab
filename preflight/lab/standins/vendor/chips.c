/* STAND-IN: see chips.h. Values and names follow what users have posted of the real tools. */
#include "chips.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct generation generations[] = {
    [ATLAS_A1] = {"910A", "Ascend 910A", 22, 1, 15137, 32768, 3, "d801", "0x02", false},
    [ATLAS_A2] = {"910B3", "Ascend 910B3", 27, 1, 0, 65536, 3402, "d802", "0x65", true},
    [ATLAS_A3] = {"Ascend910", "Ascend910", 27, 2, 0, 65536, 3402, "d803", "0x74", true},
};

const struct generation *chips_generation(void)
{
    return &generations[lab_product()];
}

static int by_place(const void *left, const void *right)
{
    const struct chip *a = left, *b = right;
    return a->npu != b->npu ? a->npu - b->npu : a->chip - b->chip;
}

int chips_seen(struct chip *list)
{
    int count = 0, dies = chips_generation()->dies;
    for (int device = 0; device < lab_device_count(); device++)
        if (!lab_state_number(device, "lost", 0))
            list[count++] = (struct chip){.device = device,
                                          .logic = lab_state_number(device, "logic", device),
                                          .npu = lab_state_number(device, "npu", device / dies),
                                          .chip = device % dies};
    qsort(list, count, sizeof list[0], by_place);
    return count;
}

void chip_bus_id(int device, char *text, size_t size)
{
    static const int eight[] = {0xC1, 0x81, 0x41, 0x01, 0xC2, 0x82, 0x42, 0x02};
    bool single = chips_generation()->dies == 1;
    int bus = single ? eight[device % 8] + device / 8 * 4 : 0x9D - 4 * (device / 2) + 2 * (device % 2);
    snprintf(text, size, "0000:%02X:00.0", bus & 0xff);
}

void chip_text(int device, const char *key, const char *otherwise, char *text, size_t size)
{
    if (!lab_state_get(device, key, text, size))
        snprintf(text, size, "%s", otherwise);
}

static int memory_of(const char *pid)
{
    char path[300];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%s/statm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}

static void name_of(const char *pid, char *name, size_t size)
{
    char path[300];
    name[0] = '\0';
    snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(name, size, file) != NULL)
            name[strcspn(name, "\n")] = '\0';
        fclose(file);
    }
}

int chip_processes(int device, struct chip_process *list)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, LAB_PRIVATE "/process/%d", device);
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && count < CHIP_PROCESSES && (entry = readdir(directory)) != NULL) {
        char file[384];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (!isdigit((unsigned char)entry->d_name[0]) || !lab_is_locked(file))
            continue;
        list[count].pid = atoi(entry->d_name);
        list[count].mb = memory_of(entry->d_name);
        name_of(entry->d_name, list[count].name, sizeof list[count].name);
        count++;
    }
    if (directory != NULL)
        closedir(directory);
    return count;
}

int chip_hbm_used_mb(int device)
{
    struct chip_process processes[CHIP_PROCESSES];
    const struct generation *generation = chips_generation();
    int used = lab_state_number(device, "hbm_used_mb", generation->hbm_used_mb);
    for (int i = chip_processes(device, processes); i > 0; i--)
        used += processes[i - 1].mb;
    return used < generation->hbm_mb ? used : generation->hbm_mb;
}
