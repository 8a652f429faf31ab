/* STAND-IN: see hccn.h. */
#include "hccn.h"
#include "lab.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static bool conf_value(const struct call *call, const char *key, char *value, size_t size)
{
    char name[48];
    snprintf(name, sizeof name, "%s_%d", key, call->device);
    return lab_get(HCCN_CONF, name, value, size);
}

/* Give the device what the file says. Keys that the stand-in does not know are passed over. */
static enum hccn_result recover(const struct call *call)
{
    char address_text[64], netmask_text[64], value[64];
    in_addr_t address, netmask;
    enum hccn_result result = HCCN_OK;
    if (conf_value(call, "address", address_text, sizeof address_text)) {
        if (!conf_value(call, "netmask", netmask_text, sizeof netmask_text))
            return HCCN_DEVICE_FAILED;
        result = hccn_parse_address(address_text, &address);
        if (result == HCCN_OK)
            result = hccn_parse_netmask(netmask_text, &netmask);
        if (result == HCCN_OK)
            result = hccn_apply_address(call, address, netmask);
    }
    if (result == HCCN_OK && conf_value(call, "gateway", value, sizeof value)) {
        result = hccn_parse_address(value, &address);
        if (result == HCCN_OK)
            result = hccn_apply_gateway(call, address);
    }
    if (result == HCCN_OK && conf_value(call, "mtu", value, sizeof value))
        result = hccn_apply_mtu(call, atoi(value));
    if (result == HCCN_OK && conf_value(call, "netdetect", value, sizeof value))
        lab_state_set(call->device, "netdetect", value);
    if (result == HCCN_OK && conf_value(call, "tls_enable", value, sizeof value))
        lab_state_set(call->device, "tls", value);
    if (result == HCCN_OK && lab_enter_device(call->device) == 0) {
        nic_set_up(call->interface);
        lab_leave_device();
    }
    return result;
}

/* The status is that of the last recovery; a host that has a file is taken to have recovered well at boot. */
enum hccn_result hccn_cfg_status(const struct call *call)
{
    char status[16];
    struct stat conf;
    if (!lab_state_get(call->device, "recovery", status, sizeof status))
        snprintf(status, sizeof status, "%s", stat(HCCN_CONF, &conf) == 0 && conf.st_size > 0 ? "SUCCESS" : "NONE");
    printf("config status:%s\n", status);
    return HCCN_OK;
}

enum hccn_result hccn_cfg_recovery(const struct call *call)
{
    if (access(HCCN_CONF, R_OK) != 0)
        return HCCN_CONF_ACCESS;
    enum hccn_result result = recover(call);
    lab_state_set(call->device, "recovery", result == HCCN_OK ? "SUCCESS" : "FAIL");
    return result == HCCN_OK ? HCCN_OK : HCCN_RECOVERY_FAILED;
}
