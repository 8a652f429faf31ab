/* STAND-IN for the vendor's npu-smi: what three product generations print about the devices of a lab host.
 *
 * Real in it: the devices, the processes that hold them, the version files. What is made up says so in its file.
 *
 *   npu-smi info [-l | -m | -t TYPE [-i NPU] [-c CHIP]]
 */
#include "npu_smi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PERMISSION_DENIED 8005 /* the shell sees the low byte of -8005 */

void npu_smi_version(const char *path, char *value, size_t size)
{
    if (!lab_get(path, "Version", value, size))
        snprintf(value, size, "NA");
}

static int help(void)
{
    puts("npu-smi: STAND-IN of the preflight lab\n"
         "Usage: npu-smi info <-h|-m|-l|-t type> [Options...]\n\n"
         "Commands:\n"
         "       -h, --help     Show this help text and exit\n"
         "       -m             Show all device's mapping information\n"
         "       -l             Show all device's topology information\n"
         "       -t type        Show information for type\n"
         "                      type: board, health, usages, common, topo, spod-info, hccs, proc-mem.\n\n"
         "Options:\n"
         "       -i %d          Card ID\n"
         "       -c %d          Chip ID");
    return 0;
}

int main(int argc, char **argv)
{
    static struct chip chips[LAB_MAX_DEVICES];
    lab_take_time();
    if (argc < 2 || strcmp(argv[1], "info") != 0)
        return help() + (argc < 2 || strcmp(argv[1], "-h") != 0);
    if (access("/dev/davinci_manager", R_OK | W_OK) != 0) {
        puts("dcmi module initialize failed. ret is -8005");
        return -PERMISSION_DENIED & 0xff;
    }
    int count = chips_seen(chips), npu = -1, chip = -1;
    const char *type = NULL;
    for (int i = 2; i < argc; i++) {
        bool last = i + 1 == argc;
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0)
            return help();
        if (strcmp(argv[i], "-m") == 0)
            return npu_smi_mapping(chips, count);
        if (strcmp(argv[i], "-l") == 0)
            return npu_smi_listing(chips, count);
        if (strcmp(argv[i], "-t") == 0 && !last)
            type = argv[++i];
        else if (strcmp(argv[i], "-i") == 0 && !last)
            npu = atoi(argv[++i]);
        else if (strcmp(argv[i], "-c") == 0 && !last)
            chip = atoi(argv[++i]);
    }
    if (count == 0) {
        puts("There is no NPU card on this server.");
        return NPU_SMI_FAILED;
    }
    return type != NULL ? npu_smi_typed(type, npu, chip, chips, count) : npu_smi_table(chips, count);
}
