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
    hccn_function *run;
    bool writes; /* root only, one at a time, says so on success, leaves a line in the log */
};

static const struct command commands[] = {
    {"-ip", "-g", hccn_ip_get, false},
    {"-ip", "-s", hccn_ip_set, true},
    {"-gateway", "-g", hccn_gateway_get, false},
    {"-gateway", "-s", hccn_gateway_set, true},
    {"-netdetect", "-g", hccn_netdetect_get, false},
    {"-netdetect", "-s", hccn_netdetect_set, true},
    {"-mtu", "-g", hccn_mtu_get, false},
    {"-mtu", "-s", hccn_mtu_set, true},
    {"-tls", "-g", hccn_tls_get, false},
    {"-tls", "-s", hccn_tls_set, true},
    {"-link", "-g", hccn_link_get, false},
    {"-net_health", "-g", hccn_net_health_get, false},
    {"-ping", "-g", hccn_ping_get, false},
    {"-speed", "-g", hccn_speed_get, false},
    {"-duplex", "-g", hccn_duplex_get, false},
    {"-mac", "-g", hccn_mac_get, false},
    {"-process", "-g", hccn_process_get, false},
    {"-lldp", "-g", hccn_lldp_get, false},
    {"-cfg", "status", hccn_cfg_status, false},
    {"-cfg", "recovery", hccn_cfg_recovery, true},
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
