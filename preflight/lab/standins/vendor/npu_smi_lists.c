/* STAND-IN: see npu_smi.h. What npu-smi says of all cards and chips: their numbers, and how they reach each other. */
#include "npu_smi.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void npu_smi_field(const char *name, const char *format, ...)
{
    va_list arguments;
    printf("\t%-30s : ", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

int npu_smi_mapping(const struct chip *chips, int count)
{
    const struct generation *gen = chips_generation();
    bool physical = gen->dies > 1;
    printf("\t%-30s %-30s %-30s %s%s\n", "NPU ID", "Chip ID", "Chip Logic ID",
           physical ? "Chip Phy-ID                    " : "", "Chip Name");
    for (int i = 0; i < count; i++) {
        printf("\t%-30d %-30d %-30d ", chips[i].npu, chips[i].chip, chips[i].logic);
        if (physical)
            printf("%-30d ", chips[i].logic);
        puts(gen->full_name);
        if (gen->mcu && (i + 1 == count || chips[i + 1].npu != chips[i].npu))
            printf("\t%-30d %-30d %-30s %s%s\n", chips[i].npu, gen->dies, "-",
                   physical ? "-                              " : "", "Mcu");
    }
    return 0;
}

int npu_smi_chips_of(int npu, const struct chip *chips, int count)
{
    int found = 0;
    for (int i = 0; i < count; i++)
        found += chips[i].npu == npu;
    return found;
}

int npu_smi_listing(const struct chip *chips, int count)
{
    int npus = 0;
    for (int i = 0; i < count; i++)
        npus += i == 0 || chips[i - 1].npu != chips[i].npu;
    npu_smi_field("Total Count", "%d", npus);
    for (int i = 0; i < count; i++)
        if (i == 0 || chips[i - 1].npu != chips[i].npu) {
            putchar('\n');
            npu_smi_field("NPU ID", "%d", chips[i].npu);
            npu_smi_field("Chip Count", "%d", npu_smi_chips_of(chips[i].npu, chips, count));
        }
    return 0;
}

/* A1: two rings of four. A2: everybody with everybody. A3: the dies of an NPU by themselves, all others by switches. */
static const char *link_between(int row, int column)
{
    if (row == column)
        return "X";
    if (lab_product() == ATLAS_A1)
        return row / 4 == column / 4 ? "HCCS" : "PHB";
    return lab_product() == ATLAS_A2 ? "HCCS" : row / 2 == column / 2 ? "SIO" : "HCCS_SW";
}

int npu_smi_topology(const struct chip *chips, int count)
{
    const char *prefix = chips_generation()->dies > 1 ? "Phy-ID" : "NPU";
    int width = 10 - strlen(prefix);
    printf("\t  ");
    for (int column = 0; column < count; column++)
        printf(" %s%-*d", prefix, width, chips[column].device);
    puts(" CPU Affinity");
    for (int row = 0; row < count; row++) {
        printf("%s%-*d", prefix, width, chips[row].device);
        for (int column = 0; column < count; column++)
            printf(" %-10s", link_between(chips[row].device, chips[column].device));
        printf(" %d-%d\n", chips[row].device * 8, chips[row].device * 8 + 7);
    }
    puts("\nLegend:\n\n  X    = Self\n  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU.\n"
         "  HCCS = Connection traversing HCCS.");
    return 0;
}
