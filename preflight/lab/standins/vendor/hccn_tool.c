/* STAND-IN for the vendor's hccn_tool: the grammar, texts, streams and exit codes of the real one (910B generation), a
 * part of its commands, and the kernel's interface in the device's namespace where the real one has a RoCE port.
 *
 *   hccn_tool -i ID -COMMAND [-s|-g|...] [word value]...
 *   hccn_tool -a -cfg recovery
 */
#include "hccn.h"
#include "lab.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOG_DIRECTORY "/var/log/hccn_tool"

struct command {
    const char *name;
    const char *action; /* the word after the name: "-s", "-g", "status" or "recovery" */
    const char *help;
    hccn_function *run;
    bool writes; /* root only, one at a time, says so on success, leaves a line in the log */
};

/* The commands of one name stand together. */
static const struct command commands[] = {
    {"-ip", "-s", "set address %s netmask %s", hccn_ip_set, true},
    {"-ip", "-g", "get ip address and netmask", hccn_ip_get, false},
    {"-gateway", "-s", "set gateway %s", hccn_gateway_set, true},
    {"-gateway", "-g", "get gateway address", hccn_gateway_get, false},
    {"-netdetect", "-s", "set address %s", hccn_netdetect_set, true},
    {"-netdetect", "-g", "get net detect cfg", hccn_netdetect_get, false},
    {"-lldp", "-g", "get lldp cfg", hccn_lldp_get, false},
    {"-mac", "-g", "get mac cfg", hccn_mac_get, false},
    {"-cfg", "recovery", "recovery cfg", hccn_cfg_recovery, true},
    {"-cfg", "status", "config status", hccn_cfg_status, false},
    {"-link", "-g", "get the eth ports link status, UP or DOWN", hccn_link_get, false},
    {"-dscp_to_tc", "-s", "set dscp %u tc %u", hccn_dscp_to_tc_set, true},
    {"-dscp_to_tc", "-g", "get the all dscp to tc map info", hccn_dscp_to_tc_get, false},
    {"-mtu", "-s", "set size %d", hccn_mtu_set, true},
    {"-mtu", "-g", "get mtu cfg", hccn_mtu_get, false},
    {"-net_health", "-g", "get net health status", hccn_net_health_get, false},
    {"-arp", "-g", "get arp table", hccn_arp_get, false},
    {"-route", "-g", "get route table", hccn_route_get, false},
    {"-optical", "-g", "get optical info", hccn_optical_get, false},
    {"-stat", "-g", "get packet statistics", hccn_stat_get, false},
    {"-tls", "-s", "set enable %d, 0: disable, 1: enable", hccn_tls_set, true},
    {"-tls", "-g", "get tls cfg", hccn_tls_get, false},
    {"-vnic", "-g", "get vnic link status, ip address and netmask", hccn_vnic_get, false},
    {"-process", "-g", "get device process info", hccn_process_get, false},
    {"-udp", "-g", "get roce udp port", hccn_udp_get, false},
    {"-bandwidth", "-g", "get tx/rx bandwidth [time %d] ms", hccn_bandwidth_get, false},
    {"-status", "-g", "get netdev status", hccn_status_get, false},
    {"-link_stat", "-g", "get link history statistics", hccn_link_stat_get, false},
    {"-link_stat", "-c", "clear link history statistics", hccn_link_stat_clear, true},
    {"-hw_stats", "-g", "get hw resource statistics", hccn_hw_stats_get, false},
    {"-speed", "-g", "get the speed of eth ports", hccn_speed_get, false},
    {"-duplex", "-g", "get the duplex mode of eth ports", hccn_duplex_get, false},
    {"-fec", "-s", "set encoding rs|no|auto", hccn_fec_set, true},
    {"-fec", "-g", "get fec mode", hccn_fec_get, false},
    {"-pfc", "-s", "set bitmap %s, one bit a priority", hccn_pfc_set, true},
    {"-pfc", "-g", "get pfc cfg", hccn_pfc_get, false},
    {"-ping", "-g", "get ping result: address %s pkt %d", hccn_ping_get, false},
    {"-hccs_ping", "-g", "get the supernodes ping result: address %s cnt %d", hccn_hccs_ping_get, false},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

/* Commands of the real tool that have no stand-in: said plainly, so that nobody takes the answer for the vendor's. */
static const char *const real_only[] = {
    "-cur_tc_buf", "-dcqcn",  "-generic", "-ip_route", "-ip_rule",    "-local_lldp", "-pci",        "-pfc_stat",
    "-prio_tc",    "-qp_info", "-roce_test", "-scdr",  "-send_arp",   "-serdes",     "-shaping",    "-tc_cfg",
    "-tc_qos",     "-tc_stat", "-tlsca",  "-traceroute", "-version",  "-xsfp_reset",
};

/* The help of one name, or of all. */
static void print_help(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (name != NULL && strcmp(commands[i].name, name) != 0)
            continue;
        if (i == 0 || strcmp(commands[i - 1].name, commands[i].name) != 0)
            printf("%shccn_tool -i devid %s\n", i == 0 || name != NULL ? "" : "\n", commands[i].name);
        if (commands[i].action[0] == '-')
            printf("   [%s]        : %s\n", commands[i].action, commands[i].help);
        else
            printf("   %-12s: %s\n", commands[i].action, commands[i].help);
    }
}

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
    for (size_t i = 0; i < COMMANDS; i++) {
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
        if (hccn_cfg_recovery(&call) == HCCN_OK) {
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
    lab_take_time();
    if (argc == 2 && strcmp(argv[1], "-h") == 0) {
        puts("hccn_tool: STAND-IN of the preflight lab");
        print_help(NULL);
        return 0;
    }
    bool all = argc == 4 && strcmp(argv[1], "-a") == 0 && strcmp(argv[2], "-cfg") == 0 &&
               strcmp(argv[3], "recovery") == 0;
    enum hccn_result result = all ? recover_all() : dispatch(argc, argv);
    fflush(stdout);
    if (result != HCCN_OK)
        hccn_print_error(result);
    if (result == HCCN_COUNT || result == HCCN_PARAMETERS)
        print_help(argv[3]);
    if (argc > 4 && (strcmp(argv[4], "-g") != 0 && strcmp(argv[4], "status") != 0))
        log_call(argc, argv, result);
    return result & 0xff;
}
