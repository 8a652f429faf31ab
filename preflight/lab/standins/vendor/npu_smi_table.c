/* STAND-IN: see npu_smi.h. The two tables of `npu-smi info`. Made up: temperature and power, which stand still. */
#include "npu_smi.h"

#include <stdarg.h>
#include <stdio.h>

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

/* ---- rows ------------------------------------------------------------------------------------------------- */

static void device_rows(const struct chip *at)
{
    char first[64], second[32], third[96], health[32], memory[32], hbm[32];
    chip_text(at->device, "health", "OK", health, sizeof health);
    snprintf(first, sizeof first, "%-5d %s", at->npu, gen->chip);
    snprintf(third, sizeof third, "%-11s %-17d %-5d/ %d", at->chip == 0 ? "88.4" : "-", 36 + at->device % 3, 0, 0);
    three_cells(first, health, third);
    if (gen->dies > 1)
        snprintf(first, sizeof first, "%-5d %d", at->chip, at->logic);
    else
        snprintf(first, sizeof first, "%d", at->chip);
    chip_bus_id(at->device, second, sizeof second);
    snprintf(memory, sizeof memory, "%-5d/ %d", gen->ddr_mb / 10, gen->ddr_mb);
    snprintf(hbm, sizeof hbm, "%-5d/ %d", chip_hbm_used_mb(at->device), gen->hbm_mb);
    snprintf(third, sizeof third, "%-11d %-17s %s", 0, memory, hbm);
    three_cells(first, second, third);
}

/* A row a process that holds the device; returns how many there were. */
static int process_rows(const struct chip *at)
{
    struct chip_process processes[CHIP_PROCESSES];
    int found = chip_processes(at->device, processes);
    for (int i = 0; i < found; i++) {
        char first[32], second[16], third[64];
        snprintf(first, sizeof first, "%-7d %d", at->npu, at->chip);
        snprintf(second, sizeof second, "%d", processes[i].pid);
        snprintf(third, sizeof third, "%-24s | %d", processes[i].name, processes[i].mb);
        three_cells(first, second, third);
    }
    return found;
}

int npu_smi_table(const struct chip *chips, int count)
{
    char driver[64];
    gen = chips_generation();
    npu_smi_version(DRIVER_INFO, driver, sizeof driver);
    rule_without_columns();
    wide_line("npu-smi %-24s Version: %s", driver, driver);
    rule('-');
    three_cells("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)");
    three_cells(gen->dies > 1 ? "Chip  Phy-ID" : "Chip", "Bus-Id",
                "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)");
    rule('=');
    for (int i = 0; i < count; i++) {
        device_rows(&chips[i]);
        if (i + 1 == count || chips[i + 1].npu != chips[i].npu)
            rule('=');
        else
            rule_without_columns();
    }
    rule('-');
    three_cells("NPU     Chip", "Process id", "Process name             | Process memory(MB)");
    rule('=');
    for (int i = 0, found = 0; i < count; i++) {
        found += process_rows(&chips[i]);
        if (i + 1 < count && chips[i + 1].npu == chips[i].npu)
            continue;
        if (found == 0)
            wide_line("No running processes found in NPU %d", chips[i].npu);
        rule('=');
        found = 0;
    }
    return 0;
}
