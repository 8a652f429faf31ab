/* STAND-IN: see hccn_error.h. Texts as the driver source has them, spelling included. */
#include "hccn_error.h"

#include <stddef.h>

#define MORE "\nEnter [ hccn_tool -h ] for more details."

struct error {
    enum hccn_result result;
    const char *text;
};

/* What the tool takes for news rather than for an error goes to stdout. */
static const struct error news[] = {
    {HCCN_BUSY, "hccn_tool is busy, please try again."},
    {HCCN_UNSUPPORTED, "The command is not supported on this product."},
    {HCCN_PFC_COUNT, "The number of pfc priority queues exceeds the maximum value(4)."},
    {HCCN_NO_OPTICS, "Optical module is not present."},
    {HCCN_RECOVERY_FAILED, "Recovery failed. Check '/var/log/hccn_tool/hccn_config.log' for details."},
};

static const struct error errors[] = {
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
    {HCCN_DSCP_RANGE, "The value of dscp you input is out of the valid range!"},
    {HCCN_TC_RANGE, "The value of tc you input is out of the valid range!"},
    {HCCN_MTU_RANGE, "The value of mtu you input is out of the valid range!"},
    {HCCN_TLS_NO_CERTIFICATE, "No certificate found, please set certs firstly!"},
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

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void print_from(const struct error *list, size_t count, enum hccn_result result, FILE *stream)
{
    for (size_t i = 0; i < count; i++)
        if (list[i].result == result)
            fprintf(stream, "%s\n", list[i].text);
}

void hccn_print_error(enum hccn_result result)
{
    print_from(news, COUNT(news), result, stdout);
    print_from(errors, COUNT(errors), result, stderr);
}
