/* STAND-IN: see hccn.h. Link, speed and duplex, history and counters of the network port. */
#include "hccn.h"
#include "lab.h"
#include "link_history.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEASURED_MS 100

enum hccn_result hccn_link_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("link status: %s\n", nic.link ? "UP" : "DOWN");
    return result;
}

static void print_time(const struct call *call, const char *name, time_t at, const char *change)
{
    char stamp[32];
    strftime(stamp, sizeof stamp, "%a %b %e %H:%M:%S %Y", localtime(&at));
    printf("[devid %d]%s%s%s\n", call->device, name, stamp, change);
}

/* 910A drivers do not count how often the link went down. */
enum hccn_result hccn_link_stat_get(const struct call *call)
{
    struct link_history history;
    if (link_history_update(call->device, &history) != 0)
        return HCCN_DEVICE_FAILED;
    print_time(call, "current time        : ", time(NULL), "");
    printf("[devid %d]link up count       : %lu\n", call->device, history.ups);
    if (lab_product() != ATLAS_A1)
        printf("[devid %d]link down count     : %lu\n", call->device, history.downs);
    printf("[devid %d]link change records :%s\n", call->device, history.count == 0 ? " NA" : "");
    for (int i = history.count - 1; i >= 0; i--)
        print_time(call, "    ", history.changes[i].at, history.changes[i].up ? "    LINK UP" : "    LINK DOWN");
    return HCCN_OK;
}

enum hccn_result hccn_link_stat_clear(const struct call *call)
{
    return link_history_clear(call->device) == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

/* The product's speed, not the veth's; a fault may have lowered it. */
static long speed_of(const struct call *call)
{
    return lab_state_number(call->device, "speed", lab_product() == ATLAS_A1 ? 100000 : 200000);
}

enum hccn_result hccn_speed_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK && nic.link)
        printf("Speed: %ld Mb/s\n", speed_of(call));
    else if (result == HCCN_OK)
        puts("Speed: Unknown!");
    return result;
}

enum hccn_result hccn_duplex_get(const struct call *call)
{
    struct nic nic;
    char duplex[16] = "Full";
    enum hccn_result result = hccn_read_nic(call, &nic);
    lab_state_get(call->device, "duplex", duplex, sizeof duplex);
    if (result == HCCN_OK)
        printf("Duplex: %s\n", nic.link ? duplex : "Unknown!");
    return result;
}

enum hccn_result hccn_fec_get(const struct call *call)
{
    char mode[16] = "rs";
    lab_state_get(call->device, "fec", mode, sizeof mode);
    printf("fec mode: %s FEC mode\n", mode);
    return HCCN_OK;
}

enum hccn_result hccn_apply_fec(const struct call *call, const char *mode)
{
    if (strcmp(mode, "rs") != 0 && strcmp(mode, "no") != 0 && strcmp(mode, "auto") != 0)
        return HCCN_PARAMETERS;
    return lab_state_set(call->device, "fec", mode) == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

/* At 200 Gb/s nothing can be chosen. */
enum hccn_result hccn_fec_set(const struct call *call)
{
    if (lab_product() != ATLAS_A1)
        return HCCN_UNSUPPORTED;
    if (call->count != 2)
        return HCCN_COUNT;
    const char *mode = hccn_word_after(call, "encoding");
    enum hccn_result result = mode == NULL ? HCCN_PARAMETERS : hccn_apply_fec(call, mode);
    return result == HCCN_OK ? hccn_conf_set(call, "encoding", mode) : result;
}

enum hccn_result hccn_mac_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("mac addr: %02x:%02x:%02x:%02x:%02x:%02x\n", nic.mac[0], nic.mac[1], nic.mac[2], nic.mac[3], nic.mac[4],
               nic.mac[5]);
    return result;
}

enum hccn_result hccn_status_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    printf("Netdev status:Settings for %s:\n", call->interface);
    printf("\tSupported ports: [ Backplane ]\n\tSupported pause frame use: Symmetric\n"
           "\tSupports auto-negotiation: No\n\tSupported FEC modes: None\t RS\n\tAdvertised link modes:  Not reported\n");
    if (nic.link)
        printf("\tSpeed: %ldMb/s\n\tDuplex: Full\n", speed_of(call));
    else
        printf("\tSpeed: Unknown!\n\tDuplex: Unknown! (255)\n");
    printf("\tLink detected: %s\n", nic.link ? "yes" : "no");
    return HCCN_OK;
}

static enum hccn_result read_traffic(const struct call *call, struct nic_traffic *traffic)
{
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int result = nic_read_traffic(call->interface, traffic);
    lab_leave_device();
    return result == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

static void print_bandwidth(const char *direction, unsigned long bytes, int ms)
{
    unsigned long hundredths = bytes / 10000 * 1000 / ms;
    printf("Bandwidth %s: %5lu.%02lu MB/sec\n", direction, hundredths / 100, hundredths % 100);
}

enum hccn_result hccn_bandwidth_get(const struct call *call)
{
    struct nic_traffic before, after;
    int ms = MEASURED_MS;
    if (call->count != 0 && call->count != 2)
        return HCCN_COUNT;
    if (call->count == 2) {
        const char *text = hccn_word_after(call, "time");
        if (text == NULL || (ms = atoi(text)) < 100 || ms > 10000)
            return HCCN_PARAMETERS;
    }
    enum hccn_result result = read_traffic(call, &before);
    usleep(ms * 1000);
    if (result == HCCN_OK)
        result = read_traffic(call, &after);
    if (result != HCCN_OK)
        return result;
    print_bandwidth("TX", after.tx_bytes - before.tx_bytes, ms);
    print_bandwidth("RX", after.rx_bytes - before.rx_bytes, ms);
    return HCCN_OK;
}

/* In the order of the real tool. The kernel counts what goes through the interface; it knows no pause frames and no RoCE,
 * so the rest is 0 unless the device's state says otherwise. */
static const char *const counters[] = {
    "mac_tx_mac_pause_num", "mac_rx_mac_pause_num", "mac_tx_pfc_pkt_num", "mac_tx_pfc_pri0_pkt_num",
    "mac_tx_pfc_pri1_pkt_num", "mac_tx_pfc_pri2_pkt_num", "mac_tx_pfc_pri3_pkt_num", "mac_tx_pfc_pri4_pkt_num",
    "mac_tx_pfc_pri5_pkt_num", "mac_tx_pfc_pri6_pkt_num", "mac_tx_pfc_pri7_pkt_num", "mac_rx_pfc_pkt_num",
    "mac_rx_pfc_pri0_pkt_num", "mac_rx_pfc_pri1_pkt_num", "mac_rx_pfc_pri2_pkt_num", "mac_rx_pfc_pri3_pkt_num",
    "mac_rx_pfc_pri4_pkt_num", "mac_rx_pfc_pri5_pkt_num", "mac_rx_pfc_pri6_pkt_num", "mac_rx_pfc_pri7_pkt_num",
    "mac_tx_total_pkt_num", "mac_tx_total_oct_num", "mac_tx_bad_pkt_num", "mac_tx_bad_oct_num",
    "mac_rx_total_pkt_num", "mac_rx_total_oct_num", "mac_rx_bad_pkt_num", "mac_rx_bad_oct_num",
    "mac_rx_fcs_err_pkt_num", "roce_rx_rc_pkt_num", "roce_rx_all_pkt_num", "roce_rx_err_pkt_num",
    "roce_tx_rc_pkt_num", "roce_tx_all_pkt_num", "roce_tx_err_pkt_num", "roce_cqe_num",
    "roce_rx_cnp_pkt_num", "roce_tx_cnp_pkt_num", "roce_unexpected_ack_num", "roce_out_of_order_num",
    "roce_verification_err_num", "roce_qp_status_err_num", "roce_new_pkt_rty_num", "roce_ecn_db_num",
    "nic_tx_all_pkg_num", "nic_tx_all_oct_num", "nic_rx_all_pkg_num", "nic_rx_all_oct_num",
};

enum hccn_result hccn_stat_get(const struct call *call)
{
    struct nic_traffic traffic;
    enum hccn_result result = read_traffic(call, &traffic);
    if (result != HCCN_OK)
        return result;
    const struct {
        const char *name;
        unsigned long value;
    } counted[] = {
        {"mac_tx_total_pkt_num", traffic.tx_packets}, {"nic_tx_all_pkg_num", traffic.tx_packets},
        {"mac_tx_total_oct_num", traffic.tx_bytes},   {"nic_tx_all_oct_num", traffic.tx_bytes},
        {"mac_rx_total_pkt_num", traffic.rx_packets}, {"nic_rx_all_pkg_num", traffic.rx_packets},
        {"mac_rx_total_oct_num", traffic.rx_bytes},   {"nic_rx_all_oct_num", traffic.rx_bytes},
        {"mac_tx_bad_pkt_num", traffic.tx_errors},    {"mac_rx_bad_pkt_num", traffic.rx_errors},
    };
    puts("packet statistics:");
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        long value = 0;
        bool newer = strcmp(counters[i], "mac_rx_fcs_err_pkt_num") == 0 || strcmp(counters[i], "roce_ecn_db_num") == 0;
        if (newer && lab_product() == ATLAS_A1)
            continue;
        for (size_t j = 0; j < sizeof counted / sizeof counted[0]; j++)
            if (strcmp(counted[j].name, counters[i]) == 0)
                value = counted[j].value;
        printf("%s:%ld\n", counters[i], lab_state_number(call->device, counters[i], value));
    }
    return HCCN_OK;
}
