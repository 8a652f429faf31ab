/* STAND-IN: see hccn.h. Priorities and ports of RoCE packets: kept in the device's state, no packet is the wiser. */
#include "hccn.h"
#include "lab.h"

#include <stdlib.h>
#include <string.h>

#define PRIORITIES 8
#define MAX_PFC 4
#define DSCPS 64
#define RDMA_DSCP 33 /* what HCCL_RDMA_TC 132, the default, becomes */

enum hccn_result hccn_pfc_get(const struct call *call)
{
    char bitmap[64] = "0,0,0,0,1,0,0,0";
    lab_state_get(call->device, "pfc", bitmap, sizeof bitmap);
    puts("PFC configuration:\npriority   0 1 2 3 4 5 6 7");
    printf("enabled    ");
    for (int priority = 0; priority < PRIORITIES; priority++)
        printf("%c%c", bitmap[priority * 2], priority == PRIORITIES - 1 ? '\n' : ' ');
    return HCCN_OK;
}

enum hccn_result hccn_apply_pfc(const struct call *call, const char *bitmap)
{
    int enabled = 0;
    if (strlen(bitmap) != PRIORITIES * 2 - 1)
        return HCCN_PARAMETERS;
    for (int i = 0; i < PRIORITIES * 2 - 1; i++) {
        if (i % 2 == 1 ? bitmap[i] != ',' : bitmap[i] != '0' && bitmap[i] != '1')
            return HCCN_PARAMETERS;
        enabled += bitmap[i] == '1';
    }
    if (enabled > MAX_PFC)
        return HCCN_PFC_COUNT;
    return lab_state_set(call->device, "pfc", bitmap) == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

enum hccn_result hccn_pfc_set(const struct call *call)
{
    if (call->count != 2)
        return HCCN_COUNT;
    const char *bitmap = hccn_word_after(call, "bitmap");
    enum hccn_result result = bitmap == NULL ? HCCN_PARAMETERS : hccn_apply_pfc(call, bitmap);
    return result == HCCN_OK ? hccn_conf_set(call, "bitmap", bitmap) : result;
}

static long class_of(const struct call *call, int dscp)
{
    char key[16];
    snprintf(key, sizeof key, "dscp_%d", dscp);
    return lab_state_number(call->device, key, dscp == RDMA_DSCP ? 1 : 0);
}

enum hccn_result hccn_dscp_to_tc_get(const struct call *call)
{
    printf("%4s%8s\n", "dscp", "tc");
    for (int dscp = 0; dscp < DSCPS; dscp++)
        printf("%4d%8ld\n", dscp, class_of(call, dscp));
    return HCCN_OK;
}

enum hccn_result hccn_dscp_to_tc_set(const struct call *call)
{
    char key[16];
    if (call->count != 4)
        return HCCN_COUNT;
    const char *dscp = hccn_word_after(call, "dscp"), *tc = hccn_word_after(call, "tc");
    if (dscp == NULL || tc == NULL)
        return HCCN_PARAMETERS;
    if (dscp[strspn(dscp, "0123456789")] != '\0' || atoi(dscp) >= DSCPS)
        return HCCN_DSCP_RANGE;
    if (strlen(tc) != 1 || tc[0] < '0' || tc[0] > '3')
        return HCCN_TC_RANGE;
    snprintf(key, sizeof key, "dscp_%d", atoi(dscp));
    return lab_state_set(call->device, key, tc) == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

enum hccn_result hccn_udp_get(const struct call *call)
{
    long port = lab_state_number(call->device, "udp_port", 0);
    printf("udp_port:%ld\nstatus:%s\n", port != 0 ? port : 49152 + call->device, port != 0 ? "custom" : "auto");
    return HCCN_OK;
}
