/* STAND-IN: see hccn.h. */
#include "hccn.h"
#include "lab.h"

#include <arpa/inet.h>
#include <string.h>

const char *hccn_text_of(in_addr_t address)
{
    return inet_ntoa((struct in_addr){address});
}

/* The value after `word`, or NULL. */
const char *hccn_word_after(const struct call *call, const char *word)
{
    for (int i = 0; i + 1 < call->count; i++)
        if (strcmp(call->words[i], word) == 0)
            return call->words[i + 1];
    return NULL;
}

enum hccn_result hccn_parse_address(const char *text, in_addr_t *address)
{
    struct in_addr in;
    if (text == NULL)
        return HCCN_PARAMETERS;
    if (inet_pton(AF_INET, text, &in) != 1)
        return HCCN_IP_INVALID;
    unsigned first = ntohl(in.s_addr) >> 24;
    if (first == 0 || first == 127 || first >= 224)
        return HCCN_IP_INVALID;
    *address = in.s_addr;
    return HCCN_OK;
}

enum hccn_result hccn_parse_netmask(const char *text, in_addr_t *netmask)
{
    struct in_addr in;
    if (text == NULL)
        return HCCN_PARAMETERS;
    if (inet_pton(AF_INET, text, &in) != 1)
        return HCCN_IP_INVALID;
    uint32_t holes = ~ntohl(in.s_addr);
    if (in.s_addr == 0 || (holes & (holes + 1)) != 0)
        return HCCN_IP_INVALID;
    *netmask = in.s_addr;
    return HCCN_OK;
}

enum hccn_result hccn_read_nic(const struct call *call, struct nic *nic)
{
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int result = nic_read(call->interface, nic);
    lab_leave_device();
    return result == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}
