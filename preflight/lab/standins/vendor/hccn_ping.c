/* STAND-IN: see hccn.h. Whom the device reaches: through its network port, and over HCCS. */
#include "hccn.h"
#include "lab.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PING_PACKETS 3
#define PING_TIMEOUT_MS 500
#define HEALTH_TRIES 3
#define HEALTH_TIMEOUT_MS 250

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

/* The two dies of an NPU of atlas-a3 do not reach each other through their network ports. */
static bool is_other_die(const struct call *call, in_addr_t target)
{
    return lab_product() == ATLAS_A3 && lab_device_exists(call->device ^ 1) &&
           hccn_address_of(call->device ^ 1) == target;
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
    bool deaf = is_other_die(call, target);
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    printf("device %d PING %s\n", call->device, hccn_text_of(target));
    for (int sequence = 0; sequence < PING_PACKETS; sequence++) {
        double ms = 0;
        switch (deaf ? ECHO_TIMEOUT : nic_echo(target, sequence, size, PING_TIMEOUT_MS, &ms)) {
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

static bool hccs_link(int device)
{
    struct nic_carrier carrier = {0};
    if (!lab_device_exists(device) || lab_enter_device(device) != 0)
        return false;
    int result = nic_read_carrier(SIBLING_INTERFACE, &carrier);
    lab_leave_device();
    return result == 0 && carrier.up;
}

static void print_times(void)
{
    static const char *const names[] = {"max", "min", "average", "TP95"};
    for (int i = 0; i < 4; i++)
        printf("%s time 10.000us\n", names[i]);
}

/* No packet is sent: the lab has HCCS inside a host only, and looks whether both ends have a link there. As the real one
 * this ends with 0 and "successfully" whatever was lost. */
enum hccn_result hccn_hccs_ping_get(const struct call *call)
{
    struct in_addr target;
    if (lab_product() != ATLAS_A3)
        return HCCN_UNSUPPORTED;
    if (geteuid() != 0)
        return HCCN_NOT_ROOT;
    const char *text = hccn_word_after(call, "address"), *count = hccn_word_after(call, "cnt");
    int packets = count == NULL ? PING_PACKETS : atoi(count);
    if (text == NULL || packets < 1 || packets > 1000)
        return HCCN_PARAMETERS;
    if (inet_pton(AF_INET, text, &target) != 1)
        return HCCN_IP_INVALID;
    if ((int)(ntohl(target.s_addr) >> 16 & 0xff) != hccn_superpod_server()) {
        fprintf(stderr, "hccn_tool of the preflight lab (a stand-in) has no HCCS between hosts.\n");
        return HCCN_MAJOR_INVALID;
    }
    bool there = hccs_link(call->device) && hccs_link(199 - (int)(ntohl(target.s_addr) & 0xff));
    printf("device %d PING %s\n\n", call->device, text);
    for (int sequence = 0; sequence < packets; sequence++) {
        puts(there ? "This pkt ping success!" : "This pkt check recv msg fail!");
        if (there)
            printf("recv seq %d, time = 10.000us, L1 plane check result = 0x0\n", sequence);
    }
    printf("\n%d packets transmitted, %d received, %.2f%% packets loss\n", packets, there ? packets : 0,
           there ? 0.0 : 100.0);
    print_times();
    puts("Cmd executed successfully!");
    return HCCN_OK;
}
