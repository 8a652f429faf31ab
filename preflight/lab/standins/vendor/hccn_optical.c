/* STAND-IN: see hccn.h. An optical module of four lanes with made-up values that stand still, but for the light that it
 * receives: without a link there is none. The device's state may hold other values: optical_present, temperature,
 * tx_power0 …, rx_power0 …, tx_los, rx_los, tx_lol, rx_lol. */
#include "hccn.h"
#include "lab.h"

#include <string.h>

#define LANES 4
#define NAME "%-21s: "

static void value_of(const struct call *call, const char *key, const char *otherwise, char *value, size_t size)
{
    if (!lab_state_get(call->device, key, value, size))
        snprintf(value, size, "%s", otherwise);
}

static void field(const struct call *call, const char *name, const char *key, const char *otherwise, const char *unit)
{
    char value[32];
    value_of(call, key, otherwise, value, sizeof value);
    printf(NAME "%s%s\n", name, value, unit);
}

/* `first`: of lane 0, in mW; the others have a little more. */
static void lane_power(const struct call *call, const char *direction, const char *key, int lane, double first)
{
    char name[32], state[32], made_up[16];
    snprintf(name, sizeof name, "%s Power%d", direction, lane);
    snprintf(state, sizeof state, "%s%d", key, lane);
    snprintf(made_up, sizeof made_up, "%.4f", first > 0 ? first + lane * 0.0151 : 0);
    field(call, name, state, made_up, " mW");
}

enum hccn_result hccn_optical_get(const struct call *call)
{
    char present[16];
    struct nic nic;
    /* A server of a SuperPoD has no module that it could ask. */
    if (lab_product() == ATLAS_A3 && lab_mode_is("superpod"))
        return HCCN_UNSUPPORTED;
    enum hccn_result result = hccn_read_nic(call, &nic);
    value_of(call, "optical_present", "present", present, sizeof present);
    if (result != HCCN_OK || strcmp(present, "absent") == 0)
        return result != HCCN_OK ? result : HCCN_NO_OPTICS;
    printf("optical info:\n" NAME "%s\n", "present", present);
    field(call, "temperature", "temperature", "47", " C");
    printf(NAME "enabled\n" NAME "STAND-IN\n" NAME "PREFLIGHT-LAB\n", "high power enable reg", "vendor name",
           "vendor part number");
    printf(NAME "LAB%02X%02X%02X%02X\n", "vendor serial number", nic.mac[2], nic.mac[3], nic.mac[4], nic.mac[5]);
    printf(NAME "0x0 0x0 0x0\n" NAME "QSFP+ or later\n" NAME "850 nm\n" NAME "2023.6.18\n" NAME "3262.90 mV\n",
           "vendor org unique id", "xsfp identifier", "xsfp wave length", "manufact date code", "Vcc");
    for (int lane = 0; lane < LANES; lane++) {
        lane_power(call, "Tx", "tx_power", lane, 1.3968);
        lane_power(call, "Rx", "rx_power", lane, nic.link ? 0.9907 : 0);
    }
    printf(NAME "3465.00 mV\n" NAME "3135.00 mV\n" NAME "70 C\n" NAME "0 C\n", "Vcc High Thres", "Vcc Low Thres",
           "Temp High Thres", "Temp Low Thres");
    printf(NAME "3.5481 mW\n" NAME "0.2818 mW\n" NAME "3.5481 mW\n" NAME "0.1445 mW\n", "TxPower High Thres",
           "TxPower Low Thres", "RxPower High Thres", "RxPower Low Thres");
    for (int lane = 0; lane < LANES; lane++)
        printf("Tx Bias%-14d: 7.9%d mA\n", lane, 240 + lane * 40);
    field(call, "Tx Los Flag", "tx_los", "0x0", "");
    field(call, "Rx Los Flag", "rx_los", nic.link ? "0x0" : "0xf", "");
    field(call, "Tx LoL Flag", "tx_lol", "0x0", "");
    field(call, "Rx LoL Flag", "rx_lol", nic.link ? "0x0" : "0xf", "");
    for (int lane = 0; lane < LANES; lane++)
        printf("Host SNR Lane%-8d: not supported\n", lane);
    for (int lane = 0; lane < LANES; lane++)
        printf("Media SNR Lane%-7d: 2%d.1211 dB\n", lane, 2 + lane % 2);
    return HCCN_OK;
}
