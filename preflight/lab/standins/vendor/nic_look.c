/* STAND-IN: what the kernel tells of an interface without being asked to change it, see nic.h. */
#include "nic.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int nic_read_carrier(const char *interface, struct nic_carrier *carrier)
{
    static char answer[16384];
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
                 .link = {.ifi_family = AF_UNSPEC, .ifi_index = if_nametoindex(interface)}};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -1;
    int size = send(fd, &request, sizeof request, 0) > 0 ? recv(fd, answer, sizeof answer, 0) : -1;
    close(fd);
    const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
    if (size < 0 || !NLMSG_OK(header, (unsigned)size) || header->nlmsg_type != RTM_NEWLINK)
        return -1;
    struct ifinfomsg *link = NLMSG_DATA(header);
    int left = header->nlmsg_len - NLMSG_LENGTH(sizeof *link);
    memset(carrier, 0, sizeof *carrier);
    for (struct rtattr *a = IFLA_RTA(link); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        if (a->rta_type == IFLA_CARRIER_UP_COUNT)
            memcpy(&carrier->ups, RTA_DATA(a), sizeof carrier->ups);
        else if (a->rta_type == IFLA_CARRIER_DOWN_COUNT)
            memcpy(&carrier->downs, RTA_DATA(a), sizeof carrier->downs);
        else if (a->rta_type == IFLA_CARRIER)
            carrier->up = *(uint8_t *)RTA_DATA(a) != 0 && (link->ifi_flags & IFF_UP) != 0;
    }
    return 0;
}

int nic_read_traffic(const char *interface, struct nic_traffic *traffic)
{
    char line[512], name[IFNAMSIZ];
    int result = -1;
    FILE *file = fopen("/proc/self/net/dev", "re");
    if (file == NULL)
        return -1;
    while (result != 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, " %15[^:]: %lu %lu %lu %*u %*u %*u %*u %*u %lu %lu %lu", name, &traffic->rx_bytes,
                   &traffic->rx_packets, &traffic->rx_errors, &traffic->tx_bytes, &traffic->tx_packets,
                   &traffic->tx_errors) == 7 &&
            strcmp(name, interface) == 0)
            result = 0;
    fclose(file);
    return result;
}

int nic_neighbours(const char *interface, struct nic_neighbour *list, int room)
{
    char line[256], address[16], mac[18], name[IFNAMSIZ];
    unsigned flags;
    int count = 0;
    FILE *file = fopen("/proc/self/net/arp", "re");
    if (file == NULL)
        return -1;
    while (count < room && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%15s %*s %x %17s %*s %15s", address, &flags, mac, name) == 4 &&
            strcmp(name, interface) == 0 && inet_pton(AF_INET, address, &list[count].address) == 1) {
            snprintf(list[count].mac, sizeof list[count].mac, "%s", flags & 2 ? mac : "");
            count++;
        }
    fclose(file);
    return count;
}

int nic_routes(const char *interface, struct nic_route *list, int room)
{
    char line[256], name[IFNAMSIZ];
    struct nic_route route;
    int count = 0;
    FILE *file = fopen("/proc/self/net/route", "re");
    if (file == NULL)
        return -1;
    while (count < room && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%15s %x %x %*x %*d %*d %*d %x", name, &route.destination, &route.gateway, &route.netmask) ==
                4 &&
            strcmp(name, interface) == 0)
            list[count++] = route;
    fclose(file);
    return count;
}
