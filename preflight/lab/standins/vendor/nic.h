/* STAND-IN: one network interface of the namespace this process is in, by ioctl and netlink.
 *
 * Addresses are in network byte order; functions return 0, or -1 with errno, unless said otherwise.
 *
 * A device has two interfaces. ethN is its network port, on the fabric; hccs0 leads to the other devices of the host.
 * Sibling traffic takes hccs0 by a /32 route. Packets marked FABRIC_TOS follow a routing table of their own which
 * knows only ethN, so that a ping asks the port and not the way around it; the kernel's echo reply carries the same
 * mark back.
 */
#ifndef NIC_H
#define NIC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define SIBLING_INTERFACE "hccs0"
#define FABRIC_TOS 0x10
#define FABRIC_TABLE 100

struct nic {
    in_addr_t address; /* 0: none */
    in_addr_t netmask;
    in_addr_t gateway; /* 0: none */
    bool link;         /* administratively up, and a carrier is there */
    int mtu;
    uint8_t mac[6];
};

int nic_read(const char *interface, struct nic *nic);

/* Replace the address; the gateway goes with the old one. Address 0 removes it. */
int nic_set_address(const char *interface, in_addr_t address, in_addr_t netmask);
int nic_set_gateway(const char *interface, in_addr_t gateway);
int nic_set_mtu(const char *interface, int mtu);
int nic_set_up(const char *interface);

/* A sibling's address by way of hccs0. `source` is this device's own address. */
int nic_add_sibling(in_addr_t sibling, in_addr_t source);
int nic_remove_sibling(in_addr_t sibling);

enum echo { ECHO_REPLY, ECHO_TIMEOUT, ECHO_UNREACHABLE, ECHO_TOO_LONG, ECHO_FAILED };

/* One ICMP echo of `size` bytes through the network port; `milliseconds` receives the round trip. */
enum echo nic_echo(in_addr_t target, uint16_t sequence, int size, int timeout_ms, double *milliseconds);

#endif
