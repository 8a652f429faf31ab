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
/* A first request for the gateway's MAC may be lost, and the kernel repeats it after a second. */
#define HEALTH_TRIES 6
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

#define HCCS_PACKETS 1000
static const struct number {
    const char *word;
    int low, high, otherwise;
} hccs_numbers[] = {{"cnt", 1, HCCS_PACKETS, PING_PACKETS},
                    {"pkt", 1792, 3000, 1792},
                    {"interval", 0, 60000, 0},
                    {"timeout", 1, 20000, PING_TIMEOUT_MS}};

/* The value after the word, in its range. */
static bool number_of(const struct call *call, const struct number *number, int *value)
{
    const char *text = hccn_word_after(call, number->word);
    *value = text == NULL ? number->otherwise : atoi(text);
    return *value >= number->low && *value <= number->high;
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Of the packets that came back; 0 if none did. */
static void print_times(double *us, int count)
{
    double sum = 0;
    qsort(us, count, sizeof *us, by_size);
    for (int i = 0; i < count; i++)
        sum += us[i];
    printf("max time %.3fus\nmin time %.3fus\n", count ? us[count - 1] : 0, count ? us[0] : 0);
    printf("average time %.3fus\nTP95 time %.3fus\n", count ? sum / count : 0, count ? us[(count * 95 - 1) / 100] : 0);
}

static int send_over_hccs(in_addr_t target, int packets, int size, int interval_ms, int timeout_ms, double *us)
{
    int received = 0;
    for (int sequence = 0; sequence < packets; sequence++) {
        double ms = 0;
        switch (nic_sibling_echo(target, sequence, size, timeout_ms, &ms)) {
        case ECHO_REPLY:
            us[received++] = ms * 1000;
            printf("This pkt ping success!\nrecv seq %d, time = %.3fus, L1 plane check result = 0x0\n", sequence,
                   ms * 1000);
            break;
        case ECHO_TIMEOUT:
            puts("This pkt check recv msg fail!");
            break;
        default:
            puts("This pkt send fail!");
        }
        usleep(interval_ms * 1000);
    }
    return received;
}

/* The lab has HCCS inside a host only. As the real one this ends with 0 and "successfully" whatever was lost. */
enum hccn_result hccn_hccs_ping_get(const struct call *call)
{
    struct in_addr target;
    int packets, size, interval_ms, timeout_ms;
    double us[HCCS_PACKETS];
    if (lab_product() != ATLAS_A3)
        return HCCN_UNSUPPORTED;
    if (geteuid() != 0)
        return HCCN_NOT_ROOT;
    const char *text = hccn_word_after(call, "address");
    if (text == NULL || !number_of(call, &hccs_numbers[0], &packets) || !number_of(call, &hccs_numbers[1], &size) ||
        !number_of(call, &hccs_numbers[2], &interval_ms) || !number_of(call, &hccs_numbers[3], &timeout_ms))
        return HCCN_PARAMETERS;
    if (inet_pton(AF_INET, text, &target) != 1)
        return HCCN_IP_INVALID;
    if ((int)(ntohl(target.s_addr) >> 16 & 0xff) != hccn_superpod_server()) {
        fprintf(stderr, "hccn_tool of the preflight lab (a stand-in) has no HCCS between hosts.\n");
        return HCCN_MAJOR_INVALID;
    }
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    printf("device %d PING %s\n\n", call->device, text);
    int received = send_over_hccs(target.s_addr, packets, size, interval_ms, timeout_ms, us);
    printf("\n%d packets transmitted, %d received, %.2f%% packets loss\n", packets, received,
           100.0 * (packets - received) / packets);
    print_times(us, received);
    puts("Cmd executed successfully!");
    return HCCN_OK;
}
