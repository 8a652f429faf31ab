/* STAND-IN: see hccn_error.h. Texts as the driver source has them, spelling included. */
#include "hccn_error.h"

#include <stddef.h>

#define MORE "\nEnter [ hccn_tool -h ] for more details."

static const struct {
    enum hccn_result result;
    const char *text;
} errors[] = {
    {HCCN_MAJOR_TYPE, "Get invalid major cmd type. The valid major cmd type should be \"-a\" or \"-i\"." MORE},
    {HCCN_MAJOR_COUNT, "Get invalid major cmd number. Please check your input." MORE},
    {HCCN_MAJOR_INVALID, "Get invalid major cmd." MORE},
    {HCCN_DEVICE_ID, "Get invalid device id."},
    {HCCN_PARAMETERS, "Get invalid parameters!"},
    {HCCN_OPTION, "Get unknown option!"},
    {HCCN_COUNT, "The total count of input parameters is wrong!"},
    {HCCN_IP_INVALID, "The ip address you configured is invalid!"},
    {HCCN_IP_CONFLICT, "The ip address configured is conflicted!"},
    {HCCN_GATEWAY_SEGMENT,
     "The segment of configured gateway doesn't match that of the configured ip adress!"},
    {HCCN_MTU_RANGE, "The value of mtu you input is out of the valid range!"},
    {HCCN_TLS_ENABLE, "Get invalid enable value!"},
    {HCCN_WRITE_CONF, "Write configurations to config file failed. User configurations cannot be persisted! "
                      "pls check cmd run permission."},
    {HCCN_NOT_ROOT, "permission denied: pls check this cmd run permission."},
    {HCCN_GATEWAY_NO_IP, "Unable to configure gateway, because ip is not configured!"},
    {HCCN_CONF_ACCESS,
     "The hccn.conf can't access, cmd execute failed! pls check the conf file or cmd run permission."},
    {HCCN_NETWORK_ADDRESS, "Inconsistent address and mask!"},
    {HCCN_BROADCAST_ADDRESS, "Can not config broadcast address!"},
    {HCCN_DEVICE_FAILED, "Command execute failed!"},
    {HCCN_NO_GATEWAY, "Get gateway failed, because no gateway was preset there!"},
    {HCCN_NO_DEVICE, "The device is not exist!"},
    {HCCN_NO_IP, "Get ipconf failed, because no ip was preset there!"},
};

void hccn_print_error(enum hccn_result result)
{
    if (result == HCCN_BUSY) {
        puts("hccn_tool is busy, please try again.");
        return;
    }
    if (result == HCCN_UNSUPPORTED) {
        puts("The command is not supported on this product.");
        return;
    }
    if (result == HCCN_RECOVERY_FAILED) {
        puts("Recovery failed. Check '/var/log/hccn_tool/hccn_config.log' for details.");
        return;
    }
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].result == result)
            fprintf(stderr, "%s\n", errors[i].text);
}
