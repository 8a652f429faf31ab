/* STAND-IN: see npu_smi.h. What npu-smi says of cards and chips one by one. Made up: usages, frequencies, power. */
#include "npu_smi.h"

#include <stdio.h>
#include <string.h>

static int chip_board(const struct chip *at)
{
    const struct generation *gen = chips_generation();
    char firmware[64], bus[32];
    npu_smi_version(FIRMWARE_INFO, firmware, sizeof firmware);
    chip_bus_id(at->device, bus, sizeof bus);
    npu_smi_field("NPU ID", "%d", at->npu);
    npu_smi_field("Chip ID", "%d", at->chip);
    npu_smi_field("Chip Type", "Ascend");
    npu_smi_field("Chip Name", "%s", gen->chip);
    npu_smi_field("Chip Version", "V1");
    npu_smi_field("Board ID", "%s", gen->board);
    npu_smi_field("PCB ID", "NA");
    npu_smi_field("BOM ID", "1");
    npu_smi_field("VDie ID", "%08X 00000000 00000000 00000000 00000000", at->device);
    npu_smi_field("NDie ID", "%08X 00000000 00000000 00000000 00000000", at->device);
    npu_smi_field("Chip Position ID", "%d", at->chip);
    npu_smi_field("PCIe Bus Info", "%s", bus);
    npu_smi_field("Firmware Version", "%s", firmware);
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
    npu_smi_field("NPU ID", "%d", at->npu);
    if (lab_product() != ATLAS_A1) {
        npu_smi_field("Product Name", "STAND-IN");
        npu_smi_field("Model", "NA");
        npu_smi_field("Manufacturer", "preflight lab");
        npu_smi_field("Serial Number", "LAB%05d", at->device);
    }
    npu_smi_field("Software Version", "%s", driver);
    npu_smi_field("Firmware Version", "%s", firmware);
    npu_smi_field("Compatibility", "OK");
    npu_smi_field("Board ID", "%s", gen->board);
    npu_smi_field("PCB ID", "A");
    npu_smi_field("BOM ID", "1");
    npu_smi_field("PCIe Bus Info", "%s", bus);
    npu_smi_field("Slot ID", "%d", at->npu);
    npu_smi_field("Class ID", "NA");
    npu_smi_field("PCI Vendor ID", "0x19E5");
    npu_smi_field("PCI Device ID", "0xD%s", gen->pci_device + 1);
    npu_smi_field("Subsystem Vendor ID", "0x0200");
    npu_smi_field("Subsystem Device ID", "0x0100");
    npu_smi_field("Chip Count", "%d", chips);
    return 0;
}

static int health(const struct chip *at)
{
    char status[32], codes[128], words[200];
    chip_text(at->device, "health", "OK", status, sizeof status);
    chip_text(at->device, "codes", "NA", codes, sizeof codes);
    chip_text(at->device, "words", "NA", words, sizeof words);
    npu_smi_field("Health Status", "%s", status);
    npu_smi_field("Error Code", "%s", codes);
    npu_smi_field("Error Information", "%s", words);
    return 0;
}

static int usages(const struct chip *at, int chips)
{
    const struct generation *gen = chips_generation();
    npu_smi_field("NPU ID", "%d", at->npu);
    npu_smi_field("Chip Count", "%d", chips);
    putchar('\n');
    npu_smi_field("DDR Capacity(MB)", "%d", gen->ddr_mb);
    npu_smi_field("DDR Usage Rate(%)", "%d", gen->ddr_mb > 0 ? 10 : 0);
    npu_smi_field("DDR Hugepages Total(page)", "0");
    npu_smi_field("DDR Hugepages Usage Rate(%)", "0");
    npu_smi_field("HBM Capacity(MB)", "%d", gen->hbm_mb);
    npu_smi_field("HBM Usage Rate(%)", "%d", chip_hbm_used_mb(at->device) * 100 / gen->hbm_mb);
    npu_smi_field("Aicore Usage Rate(%)", "0");
    if (lab_product() != ATLAS_A1)
        npu_smi_field("Aivector Usage Rate(%)", "0");
    npu_smi_field("Aicpu Usage Rate(%)", "0");
    npu_smi_field("Ctrlcpu Usage Rate(%)", "0");
    npu_smi_field("DDR Bandwidth Usage Rate(%)", "0");
    npu_smi_field("HBM Bandwidth Usage Rate(%)", "0");
    npu_smi_field("Chip ID", "%d", at->chip);
    return 0;
}

static int common(const struct chip *at, int chips)
{
    const struct generation *gen = chips_generation();
    npu_smi_field("NPU ID", "%d", at->npu);
    npu_smi_field("Chip Count", "%d", chips);
    putchar('\n');
    npu_smi_field("Chip ID", "%d", at->chip);
    npu_smi_field("Memory Usage Rate(%)", "%d", gen->ddr_mb > 0 ? 10 : 0);
    npu_smi_field("HBM Usage Rate(%)", "%d", chip_hbm_used_mb(at->device) * 100 / gen->hbm_mb);
    npu_smi_field("Aicore Usage Rate(%)", "0");
    npu_smi_field("Aicore Freq(MHZ)", "1800");
    npu_smi_field("Aicore curFreq(MHZ)", "800");
    npu_smi_field("Aicore Count", "24");
    npu_smi_field("Temperature(C)", "%d", 36 + at->device % 3);
    npu_smi_field("NPU Real-time Power(W)", "88.4");
    if (gen->mcu) {
        putchar('\n');
        npu_smi_field("Chip Name", "mcu");
        npu_smi_field("Temperature(C)", "38");
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
    npu_smi_field("SDID", "%u", (unsigned)number << 22 | at->device / 2 << 18 | at->device % 2 << 16 | at->device);
    npu_smi_field("Super Pod Size", "%s", size);
    npu_smi_field("Super Pod ID", "%s", pod);
    npu_smi_field("Server Index", "%s", server);
    return 0;
}

static void links(const char *name, const char *value)
{
    npu_smi_field(name, "[%-12s %-12s %-12s ]", value, value, value);
}

static int hccs(const struct chip *at)
{
    char status[16];
    chip_text(at->device, "hccs", "OK", status, sizeof status);
    npu_smi_field("hccs health status", "%s", status);
    links("hccs lane mode", "4");
    links("hccs link lane list", "1111");
    links("hccs link speed", "224");
    links("hccs tx packets", "0");
    links("hccs retry count", "0");
    links("hccs error count", "0");
    npu_smi_field("hccs first error lane", "NA");
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
        return npu_smi_topology(chips, count);
    bool found = false;
    for (int i = 0; i < count; i++) {
        if (chips[i].npu != npu || (chip >= 0 && chips[i].chip != chip))
            continue;
        found = true;
        if (strcmp(type, "proc-mem") != 0)
            return of_chip(type, &chips[i], npu_smi_chips_of(npu, chips, count), chip >= 0);
        processes_of(&chips[i]);
        if (chip < 0)
            npu_smi_field("Chip ID", "%d", chips[i].chip);
    }
    if (!found)
        puts("Invalid card id.");
    return found ? 0 : NPU_SMI_FAILED;
}
