/* STAND-IN for the vendor's hccn_tool: the grammar, texts, streams and exit codes of the real one (910B generation), a
 * part of its commands, and the kernel's interface in the device's namespace where the real one has a RoCE port.
 *
 *   hccn_tool -i ID -COMMAND [-s|-g|...] [word value]...
 *   hccn_tool -a -cfg recovery
 */
#define _GNU_SOURCE
#include "hccn_error.h"
#include "lab.h"
#include "nic.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONF "/etc/hccn.conf"
#define LOG_DIRECTORY "/var/log/hccn_tool"
#define PING_PACKETS 3
#define PING_TIMEOUT_MS 500
#define HEALTH_TRIES 3
#define HEALTH_TIMEOUT_MS 250

struct call {
    int device;
    char interface[16]; /* of the device, in its own namespace */
    char action;        /* 's', 'g', or 0 */
    int count;          /* words after the action */
    char **words;
};

/* ---- small helpers ---------------------------------------------------------------------------------------- */

static const char *text_of(in_addr_t address)
{
    return inet_ntoa((struct in_addr){address});
}

/* The value after `word`, or NULL. */
static const char *word_after(const struct call *call, const char *word)
{
    for (int i = 0; i + 1 < call->count; i++)
        if (strcmp(call->words[i], word) == 0)
            return call->words[i + 1];
    return NULL;
}

static enum hccn_result parse_address(const char *text, in_addr_t *address)
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

static enum hccn_result parse_netmask(const char *text, in_addr_t *netmask)
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

static enum hccn_result read_nic(const struct call *call, struct nic *nic)
{
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int result = nic_read(call->interface, nic);
    lab_leave_device();
    return result == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

static enum hccn_result persist(const struct call *call, const char *key, const char *value)
{
    char name[48];
    snprintf(name, sizeof name, "%s_%d", key, call->device);
    return lab_set(CONF, name, value) == 0 ? HCCN_OK : HCCN_WRITE_CONF;
}

/* ---- -ip -------------------------------------------------------------------------------------------------- */

/* Subnets that the real tool keeps for the host's virtual NICs. The lab's A1 is in SMP mode, its A3 in no super-pod. */
static bool is_reserved(in_addr_t address)
{
    uint32_t ip = ntohl(address);
    if ((ip & 0xffff0000) != 0xc0a80000) /* 192.168.0.0/16 */
        return false;
    unsigned third = ip >> 8 & 0xff;
    switch (lab_product()) {
    case ATLAS_A1:
        return third >= 1 && third <= 5;
    case ATLAS_A2:
        return third == 1 || third == 2;
    default:
        return third <= 7;
    }
}

static in_addr_t address_of(int device)
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
        in_addr_t theirs = address_of(sibling);
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

static enum hccn_result apply_address(const struct call *call, in_addr_t address, in_addr_t netmask)
{
    if (is_reserved(address))
        return HCCN_IP_CONFLICT;
    if ((address & ~netmask) == 0)
        return HCCN_NETWORK_ADDRESS;
    if ((address | netmask) == INADDR_NONE)
        return HCCN_BROADCAST_ADDRESS;
    for (int sibling = 0; lab_device_exists(sibling); sibling++)
        if (sibling != call->device && address_of(sibling) == address)
            return HCCN_IP_CONFLICT;
    in_addr_t before = address_of(call->device);
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int result = nic_set_address(call->interface, address, netmask);
    lab_leave_device();
    if (result != 0)
        return HCCN_DEVICE_FAILED;
    connect_siblings(call->device, before, address);
    return HCCN_OK;
}

static enum hccn_result ip_set(const struct call *call)
{
    in_addr_t address, netmask;
    if (call->count != 4)
        return HCCN_COUNT;
    const char *address_text = word_after(call, "address"), *netmask_text = word_after(call, "netmask");
    enum hccn_result result = parse_address(address_text, &address);
    if (result == HCCN_OK)
        result = parse_netmask(netmask_text, &netmask);
    if (result == HCCN_OK)
        result = apply_address(call, address, netmask);
    if (result == HCCN_OK)
        result = persist(call, "address", address_text);
    return result == HCCN_OK ? persist(call, "netmask", netmask_text) : result;
}

static enum hccn_result ip_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    if (nic.address == 0)
        return HCCN_NO_IP;
    printf("ipaddr:%s\n", text_of(nic.address));
    printf("netmask:%s\n", text_of(nic.netmask));
    return HCCN_OK;
}

/* ---- -gateway, -netdetect, -mtu, -tls --------------------------------------------------------------------- */

static enum hccn_result apply_gateway(const struct call *call, in_addr_t gateway)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
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

static enum hccn_result gateway_set(const struct call *call)
{
    in_addr_t gateway;
    if (call->count != 2)
        return HCCN_COUNT;
    const char *text = word_after(call, "gateway");
    enum hccn_result result = parse_address(text, &gateway);
    if (result == HCCN_OK)
        result = apply_gateway(call, gateway);
    return result == HCCN_OK ? persist(call, "gateway", text) : result;
}

static enum hccn_result gateway_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    if (nic.gateway == 0)
        return HCCN_NO_GATEWAY;
    printf("default gateway:%s, Iface:%s\n", text_of(nic.gateway), call->interface);
    return HCCN_OK;
}

static enum hccn_result netdetect_set(const struct call *call)
{
    in_addr_t address;
    if (call->count != 2)
        return HCCN_COUNT;
    const char *text = word_after(call, "address");
    enum hccn_result result = parse_address(text, &address);
    if (result == HCCN_OK && lab_state_set(call->device, "netdetect", text) != 0)
        result = HCCN_DEVICE_FAILED;
    return result == HCCN_OK ? persist(call, "netdetect", text) : result;
}

static enum hccn_result netdetect_get(const struct call *call)
{
    char address[64] = "0.0.0.0";
    lab_state_get(call->device, "netdetect", address, sizeof address);
    printf("netdetect addr: %s\n", address);
    return HCCN_OK;
}

static enum hccn_result apply_mtu(const struct call *call, int mtu)
{
    if (mtu < 68 || mtu > 9702)
        return HCCN_MTU_RANGE;
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    int changed = nic_set_mtu(call->interface, mtu);
    lab_leave_device();
    return changed == 0 ? HCCN_OK : HCCN_DEVICE_FAILED;
}

static enum hccn_result mtu_set(const struct call *call)
{
    if (call->count != 1)
        return HCCN_COUNT;
    enum hccn_result result = apply_mtu(call, atoi(call->words[0]));
    return result == HCCN_OK ? persist(call, "mtu", call->words[0]) : result;
}

static enum hccn_result mtu_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("mtu:%d\n", nic.mtu);
    return result;
}

static enum hccn_result tls_set(const struct call *call)
{
    if (call->count != 2)
        return HCCN_COUNT;
    const char *value = word_after(call, "enable");
    if (value == NULL)
        return HCCN_PARAMETERS;
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return HCCN_TLS_ENABLE;
    if (lab_state_set(call->device, "tls", value) != 0)
        return HCCN_DEVICE_FAILED;
    return persist(call, "tls_enable", value);
}

static enum hccn_result tls_get(const struct call *call)
{
    char value[8] = "1";
    lab_state_get(call->device, "tls", value, sizeof value);
    printf("dev_id:%d, tls switch[%s](0:disable, 1:enable), tls preconfigured[1](0:non-preset, 1:preset), "
           "tls alarm time threshold[60]days\n",
           call->device, value);
    return HCCN_OK;
}

/* ---- looking ---------------------------------------------------------------------------------------------- */

static enum hccn_result link_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("link status: %s\n", nic.link ? "UP" : "DOWN");
    return result;
}

static enum hccn_result speed_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result == HCCN_OK && nic.link)
        printf("Speed: %d Mb/s\n", lab_product() == ATLAS_A1 ? 100000 : 200000); /* the product's, not the veth's */
    else if (result == HCCN_OK)
        puts("Speed: Unknown!");
    return result;
}

static enum hccn_result duplex_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("Duplex: %s\n", nic.link ? "Full" : "Unknown!");
    return result;
}

static enum hccn_result mac_get(const struct call *call)
{
    struct nic nic;
    enum hccn_result result = read_nic(call, &nic);
    if (result == HCCN_OK)
        printf("mac addr: %02x:%02x:%02x:%02x:%02x:%02x\n", nic.mac[0], nic.mac[1], nic.mac[2], nic.mac[3], nic.mac[4],
               nic.mac[5]);
    return result;
}

static enum hccn_result process_get(const struct call *call)
{
    char path[64];
    snprintf(path, sizeof path, LAB_PRIVATE "/hccp/%d", call->device);
    printf("device hccp process: %s\n", lab_is_locked(path) ? "exist" : "not exist");
    return HCCN_OK;
}

/* Nothing is printed when there is no neighbour that speaks LLDP. */
static enum hccn_result lldp_get(const struct call *call)
{
    char leaf[64] = "";
    struct nic nic;
    FILE *file = fopen(LAB_PRIVATE "/leaf", "re");
    if (file == NULL)
        return HCCN_OK;
    if (fgets(leaf, sizeof leaf, file) != NULL)
        leaf[strcspn(leaf, "\n")] = '\0';
    fclose(file);
    enum hccn_result result = read_nic(call, &nic);
    if (result != HCCN_OK || !nic.link)
        return result;
    printf("Port ID TLV\n\tIfname: %dGE1/0/%d\n", lab_product() == ATLAS_A1 ? 100 : 200, call->device + 1);
    printf("System Name TLV\n\t%s\n", leaf);
    printf("End of LLDPDU TLV\n");
    return HCCN_OK;
}

/* The real one reports what a probe in the background saw last; this one looks now. */
static enum hccn_result net_health_get(const struct call *call)
{
    char detect[64];
    const char *status = "Init";
    in_addr_t address;
    if (lab_state_get(call->device, "netdetect", detect, sizeof detect) &&
        parse_address(detect, &address) == HCCN_OK) {
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

static enum hccn_result ping_get(const struct call *call)
{
    in_addr_t target;
    int size = 64, received = 0;
    if (call->count != 2 && call->count != 4)
        return HCCN_COUNT;
    enum hccn_result result = parse_address(word_after(call, "address"), &target);
    if (result != HCCN_OK)
        return result;
    if (call->count == 4) {
        const char *text = word_after(call, "pkt");
        if (text == NULL || !isdigit((unsigned char)text[0]) || (size = atoi(text)) > 65507)
            return HCCN_PARAMETERS;
    }
    if (lab_enter_device(call->device) != 0)
        return HCCN_DEVICE_FAILED;
    printf("device %d PING %s\n", call->device, text_of(target));
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

/* ---- -cfg ------------------------------------------------------------------------------------------------- */

static bool conf_value(const struct call *call, const char *key, char *value, size_t size)
{
    char name[48];
    snprintf(name, sizeof name, "%s_%d", key, call->device);
    return lab_get(CONF, name, value, size);
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
        result = parse_address(address_text, &address);
        if (result == HCCN_OK)
            result = parse_netmask(netmask_text, &netmask);
        if (result == HCCN_OK)
            result = apply_address(call, address, netmask);
    }
    if (result == HCCN_OK && conf_value(call, "gateway", value, sizeof value)) {
        result = parse_address(value, &address);
        if (result == HCCN_OK)
            result = apply_gateway(call, address);
    }
    if (result == HCCN_OK && conf_value(call, "mtu", value, sizeof value))
        result = apply_mtu(call, atoi(value));
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
static enum hccn_result cfg_status(const struct call *call)
{
    char status[16];
    struct stat conf;
    if (!lab_state_get(call->device, "recovery", status, sizeof status))
        snprintf(status, sizeof status, "%s", stat(CONF, &conf) == 0 && conf.st_size > 0 ? "SUCCESS" : "NONE");
    printf("config status:%s\n", status);
    return HCCN_OK;
}

static enum hccn_result cfg_recovery(const struct call *call)
{
    if (access(CONF, R_OK) != 0)
        return HCCN_CONF_ACCESS;
    enum hccn_result result = recover(call);
    lab_state_set(call->device, "recovery", result == HCCN_OK ? "SUCCESS" : "FAIL");
    return result == HCCN_OK ? HCCN_OK : HCCN_RECOVERY_FAILED;
}

/* ---- the grammar ------------------------------------------------------------------------------------------ */

struct command {
    const char *name;
    const char *action; /* the word after the name: "-s", "-g", "status" or "recovery" */
    enum hccn_result (*run)(const struct call *);
    bool writes; /* root only, one at a time, says so on success, leaves a line in the log */
};

static const struct command commands[] = {
    {"-ip", "-g", ip_get, false},
    {"-ip", "-s", ip_set, true},
    {"-gateway", "-g", gateway_get, false},
    {"-gateway", "-s", gateway_set, true},
    {"-netdetect", "-g", netdetect_get, false},
    {"-netdetect", "-s", netdetect_set, true},
    {"-mtu", "-g", mtu_get, false},
    {"-mtu", "-s", mtu_set, true},
    {"-tls", "-g", tls_get, false},
    {"-tls", "-s", tls_set, true},
    {"-link", "-g", link_get, false},
    {"-net_health", "-g", net_health_get, false},
    {"-ping", "-g", ping_get, false},
    {"-speed", "-g", speed_get, false},
    {"-duplex", "-g", duplex_get, false},
    {"-mac", "-g", mac_get, false},
    {"-process", "-g", process_get, false},
    {"-lldp", "-g", lldp_get, false},
    {"-cfg", "status", cfg_status, false},
    {"-cfg", "recovery", cfg_recovery, true},
};

/* Commands of the real tool that have no stand-in: said plainly, so that nobody takes the answer for the vendor's. */
static const char *const real_only[] = {
    "-arp",    "-bandwidth", "-dscp_to_tc", "-fec",     "-hccs_ping", "-hw_stats", "-link_stat", "-optical", "-pfc",
    "-reset",  "-roce_test", "-route",      "-send_arp", "-shaping",  "-stat",     "-status",    "-tc_qos",  "-udp",
    "-version", "-vnic",
};

static void log_call(int argc, char **argv, enum hccn_result result)
{
    mkdir(LOG_DIRECTORY, 0750);
    FILE *log = fopen(LOG_DIRECTORY "/hccn_config.log", "ae");
    if (log == NULL)
        return;
    char stamp[32];
    time_t now = time(NULL);
    strftime(stamp, sizeof stamp, "%F %T", localtime(&now));
    fprintf(log, "[%s]", stamp);
    for (int i = 0; i < argc; i++)
        fprintf(log, " %s", argv[i]);
    fprintf(log, " : 0x%x\n", result);
    fclose(log);
}

/* Two writers at once: the second is turned away, as by the real tool. */
static int take_write_lock(void)
{
    int fd = open(LAB_PRIVATE "/hccn_tool.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static enum hccn_result run_command(const struct command *command, const struct call *call)
{
    if (!command->writes)
        return command->run(call);
    if (geteuid() != 0)
        return HCCN_NOT_ROOT;
    int lock = take_write_lock();
    if (lock < 0)
        return HCCN_BUSY;
    enum hccn_result result = command->run(call);
    close(lock);
    if (result == HCCN_OK)
        puts("Cmd executed successfully!");
    return result;
}

static enum hccn_result dispatch(int argc, char **argv)
{
    if (argc < 4)
        return HCCN_MAJOR_COUNT;
    const char *id = argv[2], *name = argv[3], *action = argc > 4 ? argv[4] : "";
    if (strcmp(argv[1], "-i") != 0)
        return HCCN_MAJOR_TYPE;
    if (strlen(id) > 2 || strspn(id, "0123456789") != strlen(id) || id[0] == '\0')
        return HCCN_DEVICE_ID;
    struct call call = {.device = atoi(id), .count = argc - 5, .words = argv + 5};
    snprintf(call.interface, sizeof call.interface, "eth%d", call.device);

    bool known = false;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(commands[i].name, name) != 0)
            continue;
        known = true;
        if (strcmp(commands[i].action, action) == 0)
            return lab_device_exists(call.device) ? run_command(&commands[i], &call) : HCCN_NO_DEVICE;
    }
    for (size_t i = 0; i < sizeof real_only / sizeof real_only[0]; i++)
        if (strcmp(real_only[i], name) == 0) {
            fprintf(stderr, "hccn_tool of the preflight lab (a stand-in) does not have %s.\n", name);
            return HCCN_MAJOR_INVALID;
        }
    return known ? HCCN_OPTION : HCCN_MAJOR_INVALID;
}

static enum hccn_result recover_all(void)
{
    enum hccn_result worst = HCCN_OK;
    if (geteuid() != 0)
        return HCCN_NOT_ROOT;
    int lock = take_write_lock();
    if (lock < 0)
        return HCCN_BUSY;
    for (int device = 0; lab_device_exists(device); device++) {
        struct call call = {.device = device};
        snprintf(call.interface, sizeof call.interface, "eth%d", device);
        if (cfg_recovery(&call) == HCCN_OK) {
            printf("dev:%d recovery success\n", device);
        } else {
            fprintf(stderr, "dev:%d recovery fail\n", device);
            worst = HCCN_RECOVERY_FAILED;
        }
    }
    close(lock);
    return worst;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "-h") == 0) {
        puts("hccn_tool: STAND-IN of the preflight lab");
        for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
            printf("hccn_tool -i devid %s %s\n", commands[i].name, commands[i].action);
        return 0;
    }
    bool all = argc == 4 && strcmp(argv[1], "-a") == 0 && strcmp(argv[2], "-cfg") == 0 &&
               strcmp(argv[3], "recovery") == 0;
    enum hccn_result result = all ? recover_all() : dispatch(argc, argv);
    fflush(stdout);
    if (result != HCCN_OK)
        hccn_print_error(result);
    if (argc > 4 && (strcmp(argv[4], "-s") == 0 || strcmp(argv[4], "recovery") == 0))
        log_call(argc, argv, result);
    return result & 0xff;
}
