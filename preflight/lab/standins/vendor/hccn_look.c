/* STAND-IN: see hccn.h. */
#include "hccn.h"
#include "lab.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define PING_PACKETS 3
#define PING_TIMEOUT_MS 500
#define HEALTH_TRIES 3
#define HEALTH_TIMEOUT_MS 250

enum hccn_result hccn_link_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("link status: %s\n", nic.link ? "UP" : "DOWN");
    return result;
}

enum hccn_result hccn_speed_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK && nic.link)
        printf("Speed: %d Mb/s\n", lab_product() == ATLAS_A1 ? 100000 : 200000); /* the product's, not the veth's */
    else if (result == HCCN_OK)
        puts("Speed: Unknown!");
    return result;
}

enum hccn_result hccn_duplex_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("Duplex: %s\n", nic.link ? "Full" : "Unknown!");
    return result;
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

enum hccn_result hccn_process_get(const struct call *call)
{
    char path[64];
    snprintf(path, sizeof path, LAB_PRIVATE "/hccp/%d", call->device);
    printf("device hccp process: %s\n", lab_is_locked(path) ? "exist" : "not exist");
    return HCCN_OK;
}

/* Nothing is printed when there is no neighbour that speaks LLDP. */
enum hccn_result hccn_lldp_get(const struct call *call)
{
    char leaf[64] = "";
    struct nic nic;
    FILE *file = fopen(LAB_PRIVATE "/leaf", "re");
    if (file == NULL)
        return HCCN_OK;
    if (fgets(leaf, sizeof leaf, file) != NULL)
        leaf[strcspn(leaf, "\n")] = '\0';
    fclose(file);
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK || !nic.link)
        return result;
    printf("Port ID TLV\n\tIfname: %dGE1/0/%d\n", lab_product() == ATLAS_A1 ? 100 : 200, call->device + 1);
    printf("System Name TLV\n\t%s\n", leaf);
    printf("End of LLDPDU TLV\n");
    return HCCN_OK;
}

/* The real one reports what a probe in the background saw last; this one looks now. */
enum hccn_result hccn_net_health_get(const struct call *call)
{
    char detect[64];
    const char *status = "Init";
    in_addr_t address;
    if (lab_state_get(call->device, "netdetect", detect, sizeof detect) &&
        hccn_parse_address(detect, &address) == HCCN_OK) {
        status = "Fault";
        if (lab_enter_device(call->device) != 0)
            return HCCN_DEVICE_FAILED;
        double ms;
        for (int i = 0; i < HEALTH_TRIES && strcmp(status, "Fault") == 0; i++)
            if (nic_echo(address, i, 56, HEALTH_TIMEOUT_MS, &ms) == ECHO_REPLY)
                status = "Success";
        lab_leave_device();
    }
    printf("net health status: %s\n", status);
    return HCCN_OK;
}

enum hccn_result hccn_ping_get(const struct call *call)
{
    in_addr_t target;
    int size = 64, received = 0;
    if (call->count != 2 && call->count != 4)
        return HCCN_COUNT;
    enum hccn_result result = hccn_parse_address(hccn_word_after(call, "address"), &target);
    if (result != HCCN_OK)
        return result;
    if (call->count == 4) {
        const char *text = hccn_word_after(call, "pkt");
        if (text == NULL || !isdigit((unsigned char)text[0]) || (size = atoi(text)) > 65507)
            return HCCN_PARAMETERS;
    }
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    printf("device %d PING %s\n", call->device, hccn_text_of(target));
    for (int sequence = 0; sequence < PING_PACKETS; sequence++) {
        double ms = 0;
        switch (nic_echo(target, sequence, size, PING_TIMEOUT_MS, &ms)) {
        case ECHO_REPLY:
            printf("recv seq=%d,time=%fms\n", sequence, ms);
            received++;
            break;
        case ECHO_UNREACHABLE:
            printf("Destination Host Unreachable\n");
            break;
        case ECHO_TOO_LONG:
            printf("Message too long\n");
            break;
        default:
            printf("recv time out seq=%d\n", sequence);
        }
    }
    printf("%d packets transmitted, %d received, %.2f%% packet loss\n", PING_PACKETS, received,
           100.0 * (PING_PACKETS - received) / PING_PACKETS);
    return received == PING_PACKETS ? HCCN_OK : HCCN_DEVICE_FAILED;
}
