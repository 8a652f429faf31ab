/* STAND-IN for the vendor's npu-smi: the tables of three product generations, about the devices of a lab host.
 *
 * Real in it: the number of devices, the processes that hold them, the version files. Made up: temperature, power and
 * memory, which stand still. Values and layouts follow what users have posted of the real tool.
 *
 *   npu-smi info [-l | -m | -t board|health|usages|topo [-i NPU] [-c CHIP]]
 */
#include "lab.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER_INFO "/usr/local/Ascend/driver/version.info"
#define FIRMWARE_INFO "/usr/local/Ascend/firmware/version.info"
#define PERMISSION_DENIED 8005 /* the shell sees the low byte of -8005 */
#define FAILED 255

struct generation {
    const char *chip;      /* in the table */
    const char *full_name; /* in -m */
    int first_column;      /* width between the bars */
    int dies;              /* devices an NPU; with two, tables show the physical id */
    int ddr_mb, hbm_mb, hbm_used_mb;
    const char *pci_device, *board;
    bool mcu; /* -m lists the board's controller as a chip */
};

static const struct generation generations[] = {
    [ATLAS_A1] = {"910A", "Ascend 910A", 22, 1, 15137, 32768, 3, "0xD801", "0x02", false},
    [ATLAS_A2] = {"910B3", "Ascend 910B3", 27, 1, 0, 65536, 3402, "0xD802", "0x65", true},
    [ATLAS_A3] = {"Ascend910", "Ascend910", 27, 2, 0, 65536, 3402, "0xD803", "0x74", true},
};

static const struct generation *gen;

/* ---- lines of the tables: everything right of the first two columns is 52 wide ---------------------------- */

#define SECOND_COLUMN 15
#define THIRD_COLUMN 52

static int inner_width(void)
{
    return gen->first_column + 1 + SECOND_COLUMN + 1 + THIRD_COLUMN;
}

static void rule(char fill)
{
    int widths[] = {gen->first_column, SECOND_COLUMN, THIRD_COLUMN};
    for (int column = 0; column < 3; column++) {
        putchar('+');
        for (int i = 0; i < widths[column]; i++)
            putchar(fill);
    }
    puts("+");
}

static void rule_without_columns(void)
{
    putchar('+');
    for (int i = 0; i < inner_width(); i++)
        putchar('-');
    puts("+");
}

static void wide_line(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    printf("| %-*s|\n", inner_width() - 1, text);
}

static void three_cells(const char *first, const char *second, const char *third)
{
    printf("| %-*s| %-*s| %-*s|\n", gen->first_column - 1, first, SECOND_COLUMN - 1, second, THIRD_COLUMN - 1, third);
}

/* ---- facts ------------------------------------------------------------------------------------------------ */

static void version(const char *path, char *value, size_t size)
{
    if (!lab_get(path, "Version", value, size))
        snprintf(value, size, "NA");
}

static void bus_id(int device, char *text, size_t size)
{
    static const int a1[] = {0xC1, 0x81, 0x41, 0x01, 0xC2, 0x82, 0x42, 0x02};
    int bus = gen->dies == 1 ? a1[device % 8] + device / 8 * 4 : 0x9D - 4 * (device / 2) + 2 * (device % 2);
    snprintf(text, size, "0000:%02X:00.0", bus & 0xff);
}

static void health(int device, char *text, size_t size)
{
    if (!lab_state_get(device, "health", text, size))
        snprintf(text, size, "OK");
}

/* ---- npu-smi info ----------------------------------------------------------------------------------------- */

static void device_rows(int device)
{
    char first[64], second[32], third[96], status[16];
    int chip = device % gen->dies;
    health(device, status, sizeof status);
    snprintf(first, sizeof first, "%-5d %s", device / gen->dies, gen->chip);
    snprintf(third, sizeof third, "%-11s %-17d %-4d / %d", chip == 0 ? "88.4" : "-", 36 + device % 3, 0, 0);
    three_cells(first, status, third);
    if (gen->dies > 1)
        snprintf(first, sizeof first, "%-5d %d", chip, device);
    else
        snprintf(first, sizeof first, "%d", chip);
    bus_id(device, second, sizeof second);
    int used = gen->ddr_mb / 10;
    char memory[32];
    snprintf(memory, sizeof memory, "%-4d / %d", used, gen->ddr_mb);
    snprintf(third, sizeof third, "%-11d %-17s %-4d / %d", 0, memory, gen->hbm_used_mb, gen->hbm_mb);
    three_cells(first, second, third);
}

/* One row a process that holds the device; returns how many there were. */
static int process_rows(int device)
{
    char path[64];
    int found = 0;
    snprintf(path, sizeof path, LAB_PRIVATE "/process/%d", device);
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        char file[384], name[32] = "", first[32], third[64];
        snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
        if (!isdigit((unsigned char)entry->d_name[0]) || !lab_is_locked(file))
            continue;
        snprintf(file, sizeof file, "/proc/%s/comm", entry->d_name);
        FILE *comm = fopen(file, "re");
        if (comm != NULL) {
            if (fgets(name, sizeof name, comm) != NULL)
                name[strcspn(name, "\n")] = '\0';
            fclose(comm);
        }
        snprintf(first, sizeof first, "%-7d %d", device / gen->dies, device % gen->dies);
        snprintf(third, sizeof third, "%-24s | %d", name, 199);
        three_cells(first, entry->d_name, third);
        found++;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

static int info(int count)
{
    char driver[64];
    version(DRIVER_INFO, driver, sizeof driver);
    rule_without_columns();
    wide_line("npu-smi %-24s Version: %s", driver, driver);
    rule('-');
    three_cells("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)");
    three_cells(gen->dies > 1 ? "Chip  Phy-ID" : "Chip", "Bus-Id",
                "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)");
    rule('=');
    for (int device = 0; device < count; device++) {
        device_rows(device);
        if (device % gen->dies == gen->dies - 1 || device == count - 1)
            rule('=');
        else
            rule_without_columns();
    }
    rule('-');
    three_cells("NPU     Chip", "Process id", "Process name             | Process memory(MB)");
    rule('=');
    for (int npu = 0; npu * gen->dies < count; npu++) {
        int found = 0;
        for (int chip = 0; chip < gen->dies && npu * gen->dies + chip < count; chip++)
            found += process_rows(npu * gen->dies + chip);
        if (found == 0)
            wide_line("No running processes found in NPU %d", npu);
        rule('=');
    }
    return 0;
}

/* ---- the other questions ---------------------------------------------------------------------------------- */

static int mapping(int count)
{
    printf("\t%-30s %-30s %-30s ", "NPU ID", "Chip ID", "Chip Logic ID");
    if (gen->dies > 1)
        printf("%-30s ", "Chip Phy-ID");
    puts("Chip Name");
    for (int device = 0; device < count; device++) {
        int npu = device / gen->dies, chip = device % gen->dies;
        printf("\t%-30d %-30d %-30d ", npu, chip, device);
        if (gen->dies > 1)
            printf("%-30d ", device);
        puts(gen->full_name);
        if (gen->mcu && chip == gen->dies - 1) {
            printf("\t%-30d %-30d %-30s ", npu, gen->dies, "-");
            if (gen->dies > 1)
                printf("%-30s ", "-");
            puts("Mcu");
        }
    }
    return 0;
}

static void field(const char *name, const char *format, ...)
{
    va_list arguments;
    printf("\t%-30s : ", name);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static int listing(int count)
{
    int npus = (count + gen->dies - 1) / gen->dies;
    field("Total Count", "%d", npus);
    for (int npu = 0; npu < npus; npu++) {
        putchar('\n');
        field("NPU ID", "%d", npu);
        field("Chip Count", "%d", gen->dies);
    }
    return 0;
}

static int board(int npu, int chip)
{
    char driver[64], firmware[64], bus[32];
    version(DRIVER_INFO, driver, sizeof driver);
    version(FIRMWARE_INFO, firmware, sizeof firmware);
    bus_id(npu * gen->dies + (chip < 0 ? 0 : chip), bus, sizeof bus);
    field("NPU ID", "%d", npu);
    if (chip >= 0) {
        field("Chip ID", "%d", chip);
        field("Chip Type", "Ascend");
        field("Chip Name", "%s", gen->chip);
        field("Chip Version", "V1");
        field("Board ID", "%s", gen->board);
        field("PCIe Bus Info", "%s", bus);
        field("Firmware Version", "%s", firmware);
        return 0;
    }
    field("Software Version", "%s", driver);
    field("Firmware Version", "%s", firmware);
    field("Compatibility", "OK");
    field("Board ID", "%s", gen->board);
    field("PCIe Bus Info", "%s", bus);
    field("PCI Vendor ID", "0x19E5");
    field("PCI Device ID", "%s", gen->pci_device);
    field("Chip Count", "%d", gen->dies);
    return 0;
}

static int health_of(int npu, int chip)
{
    char status[16];
    health(npu * gen->dies + (chip < 0 ? 0 : chip), status, sizeof status);
    field("Health Status", "%s", status);
    field("Error Code", "NA");
    field("Error Information", "NA");
    return 0;
}

static int usages(int npu, int chip)
{
    field("NPU ID", "%d", npu);
    field("Chip Count", "%d", gen->dies);
    putchar('\n');
    field("DDR Capacity(MB)", "%d", gen->ddr_mb);
    field("DDR Usage Rate(%)", "%d", gen->ddr_mb > 0 ? 10 : 0);
    field("HBM Capacity(MB)", "%d", gen->hbm_mb);
    field("HBM Usage Rate(%)", "%d", gen->hbm_used_mb * 100 / gen->hbm_mb);
    field("Aicore Usage Rate(%)", "0");
    field("Chip ID", "%d", chip < 0 ? 0 : chip);
    return 0;
}

/* A1: two rings of four. The others: everybody with everybody. */
static int topology(int count)
{
    const char *prefix = gen->dies > 1 ? "Phy-ID" : "NPU";
    printf("\t  ");
    for (int column = 0; column < count; column++)
        printf(" %s%-*d", prefix, (int)(10 - strlen(prefix)), column);
    puts(" CPU Affinity");
    for (int row = 0; row < count; row++) {
        printf("%s%-*d", prefix, (int)(10 - strlen(prefix)), row);
        for (int column = 0; column < count; column++) {
            bool far = gen == &generations[ATLAS_A1] && row / 4 != column / 4;
            printf(" %-10s", row == column ? "X" : far ? "PHB" : "HCCS");
        }
        printf(" %d-%d\n", row * 8, row * 8 + 7);
    }
    puts("\nLegend:\n\n  X    = Self\n  PHB  = Path traversing PCIe and the PCIe host bridge of a CPU.\n"
         "  HCCS = Connection traversing HCCS.");
    return 0;
}

static int typed(const char *type, int npu, int chip, int count)
{
    if (strcmp(type, "topo") == 0)
        return topology(count);
    if (npu < 0 || npu * gen->dies >= count || chip >= gen->dies) {
        puts("Invalid card id.");
        return FAILED;
    }
    if (strcmp(type, "board") == 0)
        return board(npu, chip);
    if (strcmp(type, "health") == 0)
        return health_of(npu, chip);
    if (strcmp(type, "usages") == 0)
        return usages(npu, chip);
    puts("Error parameter of -t");
    return FAILED;
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "info") != 0) {
        puts("npu-smi: STAND-IN of the preflight lab\n"
             "Usage: npu-smi info [-l | -m | -t board|health|usages|topo [-i NPU] [-c CHIP]]");
        return argc < 2 || strcmp(argv[1], "-h") != 0;
    }
    if (access("/dev/davinci_manager", R_OK | W_OK) != 0) {
        puts("dcmi module initialize failed. ret is -8005");
        return -PERMISSION_DENIED & 0xff;
    }
    gen = &generations[lab_product()];
    int count = lab_device_count(), npu = -1, chip = -1;
    const char *type = NULL;
    for (int i = 2; i < argc; i++) {
        bool last = i + 1 == argc;
        if (strcmp(argv[i], "-m") == 0)
            return mapping(count);
        if (strcmp(argv[i], "-l") == 0)
            return listing(count);
        if (strcmp(argv[i], "-t") == 0 && !last)
            type = argv[++i];
        else if (strcmp(argv[i], "-i") == 0 && !last)
            npu = atoi(argv[++i]);
        else if (strcmp(argv[i], "-c") == 0 && !last)
            chip = atoi(argv[++i]);
    }
    if (count == 0) {
        puts("There is no NPU card on this server.");
        return FAILED;
    }
    return type != NULL ? typed(type, npu, chip, count) : info(count);
}
