/* STAND-IN: see npu_smi.h. What npu-smi says of cards and chips one by one. Made up: usages, frequencies, power. */
#include "npu_smi.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void field(const char *name, const char *format, ...)
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

static int chips_of(int npu, const struct chip *chips, int count)
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
    field("Total Count", "%d", npus);
    for (int i = 0; i < count; i++)
        if (i == 0 || chips[i - 1].npu != chips[i].npu) {
            putchar('\n');
            field("NPU ID", "%d", chips[i].npu);
            field("Chip Count", "%d", chips_of(chips[i].npu, chips, count));
        }
    return 0;
}

static int chip_board(const struct chip *at)
{
    const struct generation *gen = chips_generation();
    char firmware[64], bus[32];
    npu_smi_version(FIRMWARE_INFO, firmware, sizeof firmware);
    chip_bus_id(at->device, bus, sizeof bus);
    field("NPU ID", "%d", at->npu);
    field("Chip ID", "%d", at->chip);
    field("Chip Type", "Ascend");
    field("Chip Name", "%s", gen->chip);
    field("Chip Version", "V1");
    field("Board ID", "%s", gen->board);
    field("PCB ID", "NA");
    field("BOM ID", "1");
    field("VDie ID", "%08X 00000000 00000000 00000000 00000000", at->device);
    field("NDie ID", "%08X 00000000 00000000 00000000 00000000", at->device);
    field("Chip Position ID", "%d", at->chip);
    field("PCIe Bus Info", "%s", bus);
    field("Firmware Version", "%s", firmware);
    return 0;
}

/* 910A boards do not name their product. */
static int card_board(const struct chip *at, int chips)
{
    const struct generation *gen = chips_generation();
    char driver[64], firmware[64], bus[32];
    npu_smi_version(DRIVER_INFO, driver, sizeof driver);
    npu_smi_version(FIRMWARE_INFO, firmware, sizeof firmware);
    chip_bus_id(at->device, bus, sizeof bus);
    field("NPU ID", "%d", at->npu);
    if (lab_product() != ATLAS_A1) {
        field("Product Name", "STAND-IN");
        field("Model", "NA");
        field("Manufacturer", "preflight lab");
        field("Serial Number", "LAB%05d", at->device);
    }
    field("Software Version", "%s", driver);
    field("Firmware Version", "%s", firmware);
    field("Compatibility", "OK");
    field("Board ID", "%s", gen->board);
    field("PCB ID", "A");
    field("BOM ID", "1");
    field("PCIe Bus Info", "%s", bus);
    field("Slot ID", "%d", at->npu);
    field("Class ID", "NA");
    field("PCI Vendor ID", "0x19E5");
    field("PCI Device ID", "0xD%s", gen->pci_device + 1);
    field("Subsystem Vendor ID", "0x0200");
    field("Subsystem Device ID", "0x0100");
    field("Chip Count", "%d", chips);
    return 0;
}

static int health(const struct chip *at)
{
    char status[32], codes[128], words[200];
    chip_text(at->device, "health", "OK", status, sizeof status);
    chip_text(at->device, "codes", "NA", codes, sizeof codes);
    chip_text(at->device, "words", "NA", words, sizeof words);
    field("Health Status", "%s", status);
    field("Error Code", "%s", codes);
    field("Error Information", "%s", words);
    return 0;
}

static int usages(const struct chip *at, int chips)
{
    const struct generation *gen = chips_generation();
    field("NPU ID", "%d", at->npu);
    field("Chip Count", "%d", chips);
    putchar('\n');
    field("DDR Capacity(MB)", "%d", gen->ddr_mb);
    field("DDR Usage Rate(%)", "%d", gen->ddr_mb > 0 ? 10 : 0);
    field("DDR Hugepages Total(page)", "0");
    field("DDR Hugepages Usage Rate(%)", "0");
    field("HBM Capacity(MB)", "%d", gen->hbm_mb);
    field("HBM Usage Rate(%)", "%d", chip_hbm_used_mb(at->device) * 100 / gen->hbm_mb);
    field("Aicore Usage Rate(%)", "0");
    if (lab_product() != ATLAS_A1)
        field("Aivector Usage Rate(%)", "0");
    field("Aicpu Usage Rate(%)", "0");
    field("Ctrlcpu Usage Rate(%)", "0");
    field("DDR Bandwidth Usage Rate(%)", "0");
    field("HBM Bandwidth Usage Rate(%)", "0");
    field("Chip ID", "%d", at->chip);
    return 0;
}

static int common(const struct chip *at, int chips)
{
    const struct generation *gen = chips_generation();
    field("NPU ID", "%d", at->npu);
    field("Chip Count", "%d", chips);
    putchar('\n');
    field("Chip ID", "%d", at->chip);
    field("Memory Usage Rate(%)", "%d", gen->ddr_mb > 0 ? 10 : 0);
    field("HBM Usage Rate(%)", "%d", chip_hbm_used_mb(at->device) * 100 / gen->hbm_mb);
    field("Aicore Usage Rate(%)", "0");
    field("Aicore Freq(MHZ)", "1800");
    field("Aicore curFreq(MHZ)", "800");
    field("Aicore Count", "24");
    field("Temperature(C)", "%d", 36 + at->device % 3);
    field("NPU Real-time Power(W)", "88.4");
    if (gen->mcu) {
        putchar('\n');
        field("Chip Name", "mcu");
        field("Temperature(C)", "38");
    }
    return 0;
}

static int superpod(const struct chip *at)
{
    char pod[16] = "0", size[16] = "0", server[16] = "0";
    int number = 0;
    lab_get(LAB_PRIVATE "/superpod", "pod", pod, sizeof pod);
    lab_get(LAB_PRIVATE "/superpod", "size", size, sizeof size);
    lab_get(LAB_PRIVATE "/superpod", "server", server, sizeof server);
    sscanf(server, "%d", &number);
    field("SDID", "%u", (unsigned)number << 22 | at->device / 2 << 18 | at->device % 2 << 16 | at->device);
    field("Super Pod Size", "%s", size);
    field("Super Pod ID", "%s", pod);
    field("Server Index", "%s", server);
    return 0;
}

static void links(const char *name, const char *value)
{
    field(name, "[%-12s %-12s %-12s ]", value, value, value);
}

static int hccs(const struct chip *at)
{
    char status[16];
    chip_text(at->device, "hccs", "OK", status, sizeof status);
    field("hccs health status", "%s", status);
    links("hccs lane mode", "4");
    links("hccs link lane list", "1111");
    links("hccs link speed", "224");
    links("hccs tx packets", "0");
    links("hccs retry count", "0");
    links("hccs error count", "0");
    field("hccs first error lane", "NA");
    return 0;
}

static void processes_of(const struct chip *at)
{
    struct chip_process processes[CHIP_PROCESSES];
    int found = chip_processes(at->device, processes);
    for (int i = 0; i < found; i++)
        printf("\tProcess id:%-8d Process name:%-17s Process memory(MB):%d\n", processes[i].pid, processes[i].name,
               processes[i].mb);
    if (found == 0)
        puts("\tNo process in device.");
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

static int topology(const struct chip *chips, int count)
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

static int of_chip(const char *type, const struct chip *at, int chips, bool one)
{
    if (strcmp(type, "board") == 0)
        return one ? chip_board(at) : card_board(at, chips);
    if (strcmp(type, "health") == 0)
        return health(at);
    if (strcmp(type, "usages") == 0)
        return usages(at, chips);
    if (strcmp(type, "common") == 0)
        return common(at, chips);
    if ((strcmp(type, "spod-info") == 0 && lab_product() == ATLAS_A3))
        return superpod(at);
    if (strcmp(type, "hccs") == 0 && lab_product() != ATLAS_A1)
        return hccs(at);
    if (strcmp(type, "spod-info") == 0 || strcmp(type, "hccs") == 0)
        printf("This device does not support querying %s.\n", type);
    else
        puts("Error parameter of -t");
    return NPU_SMI_FAILED;
}

int npu_smi_typed(const char *type, int npu, int chip, const struct chip *chips, int count)
{
    if (strcmp(type, "topo") == 0)
        return topology(chips, count);
    bool found = false;
    for (int i = 0; i < count; i++) {
        if (chips[i].npu != npu || (chip >= 0 && chips[i].chip != chip))
            continue;
        found = true;
        if (strcmp(type, "proc-mem") != 0)
            return of_chip(type, &chips[i], chips_of(npu, chips, count), chip >= 0);
        processes_of(&chips[i]);
        if (chip < 0)
            field("Chip ID", "%d", chips[i].chip);
    }
    if (!found)
        puts("Invalid card id.");
    return found ? 0 : NPU_SMI_FAILED;
}
