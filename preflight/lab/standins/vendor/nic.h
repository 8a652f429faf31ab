/* STAND-IN: one network interface of the namespace this process is in, by ioctl and netlink.
 *
 * Addresses are in network byte order; functions return 0, or -1 with errno, unless said otherwise.
 *
 * A device has two interfaces. ethN is its network port, on the fabric; hccs0 leads to the other devices of the host,
 * and has the address of the virtual NIC where the product has one (atlas-a3).
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

/* How often the link came and went; "up" as in struct nic, without the settling time of the kernel's flags. */
struct nic_carrier {
    uint32_t ups, downs;
    bool up;
};

int nic_read_carrier(const char *interface, struct nic_carrier *carrier);

struct nic_traffic {
    unsigned long rx_bytes, rx_packets, rx_errors, tx_bytes, tx_packets, tx_errors;
};

int nic_read_traffic(const char *interface, struct nic_traffic *traffic);

struct nic_neighbour {
    in_addr_t address;
    char mac[18]; /* empty: nobody has answered */
};

struct nic_route {
    in_addr_t destination, gateway, netmask; /* gateway 0: directly connected */
};

/* Fill the list of an interface, as the kernel's tables have it; return how many, -1 with errno. */
int nic_neighbours(const char *interface, struct nic_neighbour *list, int room);
int nic_routes(const char *interface, struct nic_route *list, int room);

/* Replace the address; the gateway goes with the old one. Address 0 removes it. */
int nic_set_address(const char *interface, in_addr_t address, in_addr_t netmask);
int nic_set_gateway(const char *interface, in_addr_t gateway);
int nic_set_mtu(const char *interface, int mtu);
int nic_set_up(const char *interface);

/* A sibling's address by way of hccs0. `source` is this device's own address. */
int nic_add_sibling(in_addr_t sibling, in_addr_t source);
int nic_remove_sibling(in_addr_t sibling);

/* One ICMP echo of `size` bytes through the network port, which no router may cut; `milliseconds` receives the round
 * trip. */
enum echo { ECHO_REPLY, ECHO_TIMEOUT, ECHO_UNREACHABLE, ECHO_TOO_LONG, ECHO_FAILED };
enum echo nic_echo(in_addr_t target, uint16_t sequence, int size, int timeout_ms, double *milliseconds);

/* The same through hccs0 alone, to the virtual NIC of another device of the host. */
enum echo nic_sibling_echo(in_addr_t target, uint16_t sequence, int size, int timeout_ms, double *milliseconds);

#endif
