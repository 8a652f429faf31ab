/* STAND-IN: see hccn.h. */
#include "hccn.h"
#include "lab.h"

#include <sys/stat.h>
#include <unistd.h>

/* Each gives the device one setting of the file, if it is there. */

static enum hccn_result recover_mtu(const struct call *call)
{
    char value[64];
    return hccn_conf_get(call, "mtu", value, sizeof value) ? hccn_apply_mtu(call, value) : HCCN_OK;
}

static enum hccn_result recover_tls(const struct call *call)
{
    char value[64];
    if (hccn_conf_get(call, "tls_enable", value, sizeof value))
        return lab_state_set(call->device, "tls", value) == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
    return HCCN_OK;
}

/* An address without a mask is passed over. */
static enum hccn_result recover_address(const struct call *call)
{
    char address_text[64], netmask_text[64];
    in_addr_t address, netmask;
    if (!hccn_conf_get(call, "address", address_text, sizeof address_text) ||
        !hccn_conf_get(call, "netmask", netmask_text, sizeof netmask_text))
        return HCCN_OK;
    enum hccn_result result = hccn_parse_address(address_text, &address);
    if (result == HCCN_OK)
        result = hccn_parse_netmask(netmask_text, &netmask);
    return result == HCCN_OK ? hccn_apply_address(call, address, netmask) : result;
}

static enum hccn_result recover_netdetect(const struct call *call)
{
    char value[64];
    if (hccn_conf_get(call, "netdetect", value, sizeof value))
        return lab_state_set(call->device, "netdetect", value) == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
    return HCCN_OK;
}

static enum hccn_result recover_gateway(const struct call *call)
{
    char value[64];
    in_addr_t gateway;
    if (!hccn_conf_get(call, "gateway", value, sizeof value))
        return HCCN_OK;
    enum hccn_result result = hccn_parse_address(value, &gateway);
    return result == HCCN_OK ? hccn_apply_gateway(call, gateway) : result;
}

static enum hccn_result recover_fec(const struct call *call)
{
    char value[64];
    return hccn_conf_get(call, "encoding", value, sizeof value) ? hccn_apply_fec(call, value) : HCCN_OK;
}

static enum hccn_result recover_pfc(const struct call *call)
{
    char value[64];
    return hccn_conf_get(call, "bitmap", value, sizeof value) ? hccn_apply_pfc(call, value) : HCCN_OK;
}

static hccn_function *const settings[] = {recover_mtu,     recover_tls, recover_address, recover_netdetect,
                                          recover_gateway, recover_fec, recover_pfc};

/* Keys that the stand-in does not know are passed over. What fails does not keep the others back. */
static enum hccn_result recover(const struct call *call)
{
    enum hccn_result worst = HCCN_OK;
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    nic_set_up(call->interface);
    lab_leave_device();
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        enum hccn_result result = settings[i](call);
        if (result != HCCN_OK)
            worst = result;
    }
    return worst;
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
    lab_state_set(call->device, "recovery", "START");
    enum hccn_result result = recover(call);
    lab_state_set(call->device, "recovery", result == HCCN_OK ? "SUCCESS" : "FAIL");
    return result == HCCN_OK ? HCCN_OK : HCCN_RECOVERY_FAILED;
}
