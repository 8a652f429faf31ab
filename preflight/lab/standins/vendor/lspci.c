/* STAND-IN for lspci, of a lab host's accelerators only: what else is on the machine's buses is not the host's.
 *
 *   lspci [-D] [-n | -nn] [-d VENDOR:[DEVICE]]
 */
#include "chips.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define VENDOR "19e5"
#define CLASS "1200"

/* Does "19e5:", "19e5:d801" or ":d801" mean these? An empty half means any. */
static bool is_meant(const char *wanted, const char *device)
{
    const char *colon = strchr(wanted, ':');
    size_t length = colon != NULL ? (size_t)(colon - wanted) : strlen(wanted);
    bool vendor = length == 0 || (length == strlen(VENDOR) && strncasecmp(wanted, VENDOR, length) == 0);
    return vendor && (colon == NULL || colon[1] == '\0' || strncasecmp(colon + 1, device, strlen(device)) == 0);
}

int main(int argc, char **argv)
{
    const char *device = chips_generation()->pci_device, *wanted = ":";
    int numbers = 0, option;
    bool domain = false;
    while ((option = getopt(argc, argv, "Dnd:")) != -1)
        switch (option) {
        case 'D':
            domain = true;
            break;
        case 'n':
            numbers++;
            break;
        case 'd':
            wanted = optarg;
            break;
        default:
            fprintf(stderr, "lspci of the preflight lab (a stand-in) takes -D, -n, -nn and -d only.\n");
            return 1;
        }
    lab_take_time();
    if (!is_meant(wanted, device))
        return 0;
    for (int i = 0; i < lab_device_count(); i++) {
        char bus[32];
        chip_bus_id(i, bus, sizeof bus);
        for (char *c = bus; *c != '\0'; c++)
            *c = tolower((unsigned char)*c);
        printf("%s ", domain ? bus : bus + strlen("0000:"));
        if (numbers == 1)
            printf(CLASS ": " VENDOR ":%s (rev 20)\n", device);
        else if (numbers > 1)
            printf("Processing accelerators [" CLASS "]: Huawei Technologies Co., Ltd. Device [" VENDOR ":%s] (rev 20)\n",
                   device);
        else
            printf("Processing accelerators: Huawei Technologies Co., Ltd. Device %s (rev 20)\n", device);
    }
    return 0;
}
