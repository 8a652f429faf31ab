/* STAND-IN: see hccn.h. What a job leaves its traces in: the HCCP process, queue pairs, and the virtual NIC. */
#include "hccn.h"
#include "lab.h"

static bool in_use(const struct call *call)
{
    char path[64];
    snprintf(path, sizeof path, LAB_PRIVATE "/hccp/%d", call->device);
    return lab_is_locked(path);
}

enum hccn_result hccn_process_get(const struct call *call)
{
    printf("device hccp process: %s\n", in_use(call) ? "exist" : "not exist");
    return HCCN_OK;
}

/* The driver has one of each for itself, and no memory. A communicator has one more, whatever it does: the lab has no
 * queue pairs that could be counted. */
enum hccn_result hccn_hw_stats_get(const struct call *call)
{
    static const struct {
        const char *name;
        int of_driver;
    } kinds[] = {{"pd", 1}, {"mr", 0}, {"cq", 1}, {"qp", 1}};
    int used = in_use(call);
    for (int i = 0; i < 4; i++)
        printf("[devid %d] %s_alloc: %d\n[devid %d] %s_dealloc: 0\n", call->device, kinds[i].name,
               kinds[i].of_driver + used, call->device, kinds[i].name);
    for (int i = 0; i < 4; i++)
        printf("[devid %d] %s_active: %d\n", call->device, kinds[i].name, kinds[i].of_driver + used);
    printf("[devid %d] aeqe: 0\n[devid %d] ceqe: 0\n", call->device, call->device);
    return HCCN_OK;
}

/* 192.SERVER.(2 + die).(199 - device), as the driver numbers its virtual NICs; hccs0 has it (network.py of the lab). */
static void vnic_address(int server, int device, char *text, size_t size)
{
    snprintf(text, size, "192.%d.%d.%d", server, 2 + device % 2, 199 - device);
}

int hccn_superpod_server(void)
{
    char value[16] = "0";
    lab_get(LAB_PRIVATE "/superpod", "server", value, sizeof value);
    int server = 0;
    sscanf(value, "%d", &server);
    return server;
}

/* The virtual NIC is up while the device is. */
enum hccn_result hccn_vnic_get(const struct call *call)
{
    char address[32];
    if (lab_product() != ATLAS_A3)
        return HCCN_UNSUPPORTED;
    vnic_address(hccn_superpod_server(), call->device, address, sizeof address);
    printf("vnic link status: UP\nvnic ipaddr: %s\nvnic netmask: 255.0.0.0\n", address);
    return HCCN_OK;
}
