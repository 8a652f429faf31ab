/* STAND-IN: see hccn.h. */
#include "hccn.h"
#include "lab.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/* ---- address and netmask */

/* Subnets that the real tool keeps for the host's virtual NICs. */
static bool is_reserved(in_addr_t address)
{
    uint32_t ip = ntohl(address);
    if (lab_product() == ATLAS_A3 && lab_mode_is("superpod"))
        return ip >> 24 == 192;
    if (ip >> 16 != 0xc0a8) /* 192.168.0.0/16 */
        return false;
    unsigned third = ip >> 8 & 0xff;
    switch (lab_product()) {
    case ATLAS_A1:
        return third >= 1 && third <= (lab_mode_is("amp") ? 2 : 5);
    case ATLAS_A2:
        return third == 1 || third == 2;
    default:
        return third <= 7;
    }
}

in_addr_t hccn_address_of(int device)
{
    char interface[16];
    struct nic nic = {0};
    snprintf(interface, sizeof interface, "eth%d", device);
    if (lab_enter_device(device) == 0) {
        nic_read(interface, &nic);
        lab_leave_device();
    }
    return nic.address;
}

/* Both ends of every path between this device and its siblings; `before` is the address it had. */
static void connect_siblings(int device, in_addr_t before, in_addr_t address)
{
    for (int sibling = 0; lab_device_exists(sibling); sibling++) {
        if (sibling == device)
            continue;
        in_addr_t theirs = hccn_address_of(sibling);
        if (theirs == 0)
            continue;
        if (lab_enter_device(sibling) == 0) {
            if (before != 0 && before != address)
                nic_remove_sibling(before);
            nic_add_sibling(address, theirs);
        }
        if (lab_enter_device(device) == 0)
            nic_add_sibling(theirs, address);
        lab_leave_device();
    }
}

/* On A3 only the two dies of an NPU are compared. */
static bool is_taken(int device, in_addr_t address)
{
    for (int other = 0; lab_device_exists(other); other++)
        if (other != device && (lab_product() != ATLAS_A3 || other == (device ^ 1)) && hccn_address_of(other) == address)
            return true;
    return false;
}

enum hccn_result hccn_apply_address(const struct call *call, in_addr_t address, in_addr_t netmask)
{
    if (is_reserved(address) || is_taken(call->device, address))
        return HCCN_IP_CONFLICT;
    if ((address & ~netmask) == 0)
        return HCCN_NETWORK_ADDRESS;
    if ((address | netmask) == INADDR_NONE)
        return HCCN_BROADCAST_ADDRESS;
    in_addr_t before = hccn_address_of(call->device);
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int result = nic_set_address(call->interface, address, netmask);
    lab_leave_device();
    if (result != 0)
        return HCCN_DEVICE_FAILED;
    connect_siblings(call->device, before, address);
    return HCCN_OK;
}

/* With its address a device has lost its gateway. The file's is given back if it lies in the new segment, and else it
 * is dropped from the file. */
static enum hccn_result recover_gateway(const struct call *call, in_addr_t address, in_addr_t netmask)
{
    char text[64];
    in_addr_t gateway;
    if (!hccn_conf_get(call, "gateway", text, sizeof text) || hccn_parse_address(text, &gateway) != HCCN_OK)
        return HCCN_OK;
    if ((gateway & netmask) != (address & netmask))
        return hccn_conf_set(call, "gateway", NULL);
    return hccn_apply_gateway(call, gateway);
}

enum hccn_result hccn_ip_set(const struct call *call)
{
    in_addr_t address, netmask;
    if (call->count != 4)
        return HCCN_COUNT;
    const char *address_text = hccn_word_after(call, "address"), *netmask_text = hccn_word_after(call, "netmask");
    enum hccn_result result = hccn_parse_address(address_text, &address);
    if (result == HCCN_OK)
        result = hccn_parse_netmask(netmask_text, &netmask);
    if (result == HCCN_OK && !hccn_conf_exists())
        result = HCCN_CONF_ACCESS;
    if (result == HCCN_OK)
        result = hccn_apply_address(call, address, netmask);
    if (result == HCCN_OK)
        result = recover_gateway(call, address, netmask);
    if (result == HCCN_OK)
        result = hccn_conf_set(call, "address", address_text);
    return result == HCCN_OK ? hccn_conf_set(call, "netmask", netmask_text) : result;
}

enum hccn_result hccn_ip_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    if (nic.address == 0) /* old 910A drivers print nothing */
        return lab_product() == ATLAS_A1 ? HCCN_OK : HCCN_NO_IP;
    printf("ipaddr:%s\n", hccn_text_of(nic.address));
    printf("netmask:%s\n", hccn_text_of(nic.netmask));
    return HCCN_OK;
}

/* ---- gateway, detect address, MTU, TLS switch */

enum hccn_result hccn_apply_gateway(const struct call *call, in_addr_t gateway)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    if (nic.address == 0)
        return HCCN_GATEWAY_NO_IP;
    if ((gateway & nic.netmask) != (nic.address & nic.netmask) || gateway == nic.address)
        return HCCN_GATEWAY_SEGMENT;
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int changed = nic_set_gateway(call->interface, gateway);
    lab_leave_device();
    return changed == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

enum hccn_result hccn_gateway_set(const struct call *call)
{
    in_addr_t gateway;
    if (call->count != 2)
        return HCCN_COUNT;
    const char *text = hccn_word_after(call, "gateway");
    enum hccn_result result = hccn_parse_address(text, &gateway);
    if (result == HCCN_OK)
        result = hccn_apply_gateway(call, gateway);
    return result == HCCN_OK ? hccn_conf_set(call, "gateway", text) : result;
}

enum hccn_result hccn_gateway_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    if (nic.gateway == 0)
        return HCCN_NO_GATEWAY;
    printf("default gateway:%s, Iface:%s\n", hccn_text_of(nic.gateway), call->interface);
    return HCCN_OK;
}

enum hccn_result hccn_netdetect_set(const struct call *call)
{
    in_addr_t address;
    if (call->count != 2)
        return HCCN_COUNT;
    const char *text = hccn_word_after(call, "address");
    enum hccn_result result = hccn_parse_address(text, &address);
    if (result == HCCN_OK && lab_state_set(call->device, "netdetect", text) != 0)
        result = HCCN_DEVICE_FAILED;
    return result == HCCN_OK ? hccn_conf_set(call, "netdetect", text) : result;
}

enum hccn_result hccn_netdetect_get(const struct call *call)
{
    char address[64] = "0.0.0.0";
    lab_state_get(call->device, "netdetect", address, sizeof address);
    printf("netdetect addr: %s\n", address);
    return HCCN_OK;
}

enum hccn_result hccn_apply_mtu(const struct call *call, const char *text)
{
    int mtu = atoi(text);
    if (text[strspn(text, "0123456789")] != '\0' || mtu < 68 || mtu > 9702)
        return HCCN_MTU_RANGE;
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int changed = nic_set_mtu(call->interface, mtu);
    lab_leave_device();
    return changed == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

enum hccn_result hccn_mtu_set(const struct call *call)
{
    if (call->count != 2)
        return HCCN_COUNT;
    const char *size = hccn_word_after(call, "size");
    enum hccn_result result = size == NULL ? HCCN_OPTION : hccn_apply_mtu(call, size);
    return result == HCCN_OK ? hccn_conf_set(call, "mtu", size) : result;
}

enum hccn_result hccn_mtu_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("mtu:%d\n", nic.mtu);
    return result;
}

enum hccn_result hccn_tls_set(const struct call *call)
{
    if (call->count != 2)
        return HCCN_COUNT;
    const char *value = hccn_word_after(call, "enable");
    if (value == NULL)
        return HCCN_PARAMETERS;
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return HCCN_TLS_ENABLE;
    if (lab_state_set(call->device, "tls", value) != 0)
        return HCCN_DEVICE_FAILED;
    return hccn_conf_set(call, "tls_enable", value);
}

/* Nothing is encrypted in the lab: its certificates are words. */
static void print_certificate(int device, const char *name)
{
    printf("dev_id:%d, [%s cert] info:\n         issuer[/O=preflight/OU=STAND-IN/CN=lab]\n", device, name);
    puts("         start_time[Thu Jan  1 00:00:00 2026 GMT]\n         end_time[Tue Jan  1 00:00:00 2036 GMT]");
}

/* Older drivers say nothing of certificates that were there from the start. */
enum hccn_result hccn_tls_get(const struct call *call)
{
    char value[8] = "1", certificates[8] = "set";
    lab_state_get(call->device, "tls", value, sizeof value);
    lab_state_get(call->device, "tls_certs", certificates, sizeof certificates);
    if (strcmp(certificates, "none") == 0)
        return HCCN_TLS_NO_CERTIFICATE;
    printf("dev_id:%d, tls switch[%s](0:disable, 1:enable), %stls alarm time threshold[60]days\n", call->device, value,
           lab_product() == ATLAS_A1 ? "" : "tls preconfigured[1](0:non-preset, 1:preset), ");
    print_certificate(call->device, "pub");
    print_certificate(call->device, "ca1");
    print_certificate(call->device, "ca2");
    return HCCN_OK;
}
