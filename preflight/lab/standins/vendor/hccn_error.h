/* STAND-IN: the results of hccn_tool, their texts and streams. The shell sees the low byte of the code. */
#ifndef HCCN_ERROR_H
#define HCCN_ERROR_H

#include <stdio.h>

enum hccn_result {
    HCCN_OK = 0,
    HCCN_MAJOR_TYPE = 0x1001,
    HCCN_MAJOR_COUNT = 0x1002,
    HCCN_MAJOR_INVALID = 0x1003,
    HCCN_DEVICE_ID = 0x1004,
    HCCN_PARAMETERS = 0x2001,
    HCCN_OPTION = 0x2003,
    HCCN_COUNT = 0x2004,
    HCCN_IP_INVALID = 0x2006,
    HCCN_IP_CONFLICT = 0x2007,
    HCCN_GATEWAY_SEGMENT = 0x2008,
    HCCN_DSCP_RANGE = 0x2009,
    HCCN_TC_RANGE = 0x200a,
    HCCN_MTU_RANGE = 0x200d,
    HCCN_TLS_NO_CERTIFICATE = 0x200e,
    HCCN_TLS_ENABLE = 0x2010,
    HCCN_WRITE_CONF = 0x3004,
    HCCN_BUSY = 0x300b,
    HCCN_NOT_ROOT = 0x300c,
    HCCN_UNSUPPORTED = 0x300d,
    HCCN_PFC_COUNT = 0x3019,
    HCCN_GATEWAY_NO_IP = 0x301a,
    HCCN_CONF_ACCESS = 0x301d,
    HCCN_NETWORK_ADDRESS = 0x3022,
    HCCN_BROADCAST_ADDRESS = 0x3025,
    HCCN_DEVICE_FAILED = 0x4001,
    HCCN_NO_GATEWAY = 0x4002,
    HCCN_NO_DEVICE = 0x4004,
    HCCN_NO_IP = 0x400d,
    HCCN_NO_OPTICS = 0x4014,
    HCCN_RECOVERY_FAILED = 0x5000,
};

/* Print the text of a failure on its stream. */
void hccn_print_error(enum hccn_result result);

#endif
