/* STAND-IN: the accelerators of a lab host, as npu-smi and lspci know them.
 *
 * What they say of a device may have been changed; it then stands in the device's state: npu (the id of its card), logic
 * (its own id), lost (1: the driver does not see it any more), health, codes, words, hbm_used_mb, hccs.
 */
#ifndef CHIPS_H
#define CHIPS_H

#include "lab.h"

struct generation {
    const char *chip;      /* in the table */
    const char *full_name; /* in -m */
    int first_column;      /* width between the bars of the table */
    int dies;              /* devices an NPU; with two, tables show the physical id */
    int ddr_mb, hbm_mb, hbm_used_mb;
    const char *pci_device, *board;
    bool mcu; /* the board's controller counts as a chip */
};

const struct generation *chips_generation(void);

struct chip {
    int device, logic, npu, chip;
};

/* Those that the driver sees, by NPU and chip; returns how many. */
int chips_seen(struct chip *list);

void chip_bus_id(int device, char *text, size_t size);
void chip_text(int device, const char *key, const char *otherwise, char *text, size_t size);

struct chip_process {
    int pid, mb; /* what it has of the host's memory: the lab has no other */
    char name[32];
};

#define CHIP_PROCESSES 64
int chip_processes(int device, struct chip_process *list);
int chip_hbm_used_mb(int device);

#endif
