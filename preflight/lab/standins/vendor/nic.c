/* STAND-IN: see nic.h. */
#include "nic.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int interface_ioctl(const char *interface, unsigned long request, struct ifreq *ifr)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    snprintf(ifr->ifr_name, sizeof ifr->ifr_name, "%s", interface);
    int result = ioctl(fd, request, ifr);
    int saved = errno;
    close(fd);
    errno = saved;
    return result;
}

static in_addr_t ifreq_address(const struct ifreq *ifr)
{
    struct sockaddr_in in;
    memcpy(&in, &ifr->ifr_addr, sizeof in);
    return in.sin_addr.s_addr;
}

static int set_ifreq_address(const char *interface, unsigned long request, in_addr_t address)
{
    struct ifreq ifr = {0};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = address};
    memcpy(&ifr.ifr_addr, &in, sizeof in);
    return interface_ioctl(interface, request, &ifr);
}

/* The default route of the main table, as /proc/net/route shows it. */
static in_addr_t default_gateway(const char *interface)
{
    FILE *file = fopen("/proc/self/net/route", "re");
    if (file == NULL)
        return 0;
    char line[256], name[IFNAMSIZ];
    unsigned destination, gateway, mask;
    in_addr_t found = 0;
    while (found == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%15s %x %x %*x %*d %*d %*d %x", name, &destination, &gateway, &mask) == 4 &&
            destination == 0 && mask == 0 && strcmp(name, interface) == 0)
            found = gateway;
    fclose(file);
    return found;
}

int nic_read(const char *interface, struct nic *nic)
{
    struct ifreq ifr = {0};
    memset(nic, 0, sizeof *nic);
    if (interface_ioctl(interface, SIOCGIFFLAGS, &ifr) != 0)
        return -1;
    nic->link = (ifr.ifr_flags & IFF_UP) != 0 && (ifr.ifr_flags & IFF_RUNNING) != 0;
    if (interface_ioctl(interface, SIOCGIFADDR, &ifr) == 0) {
        nic->address = ifreq_address(&ifr);
        if (interface_ioctl(interface, SIOCGIFNETMASK, &ifr) == 0)
            nic->netmask = ifreq_address(&ifr);
        nic->gateway = default_gateway(interface);
    }
    if (interface_ioctl(interface, SIOCGIFMTU, &ifr) == 0)
        nic->mtu = ifr.ifr_mtu;
    if (interface_ioctl(interface, SIOCGIFHWADDR, &ifr) == 0)
        memcpy(nic->mac, ifr.ifr_hwaddr.sa_data, sizeof nic->mac);
    return 0;
}

struct route {
    uint32_t table;
    in_addr_t destination;
    int prefix;
    in_addr_t gateway; /* 0: on the link */
    in_addr_t source;  /* 0: none given */
    int interface;     /* index; 0: none given */
};

struct route_message {
    struct nlmsghdr header;
    struct rtmsg route;
    char attributes[128];
};

static void add_attribute(struct route_message *message, int type, uint32_t value)
{
    struct rtattr *attribute = (struct rtattr *)((char *)message + NLMSG_ALIGN(message->header.nlmsg_len));
    attribute->rta_type = type;
    attribute->rta_len = RTA_LENGTH(sizeof value);
    memcpy(RTA_DATA(attribute), &value, sizeof value);
    message->header.nlmsg_len = NLMSG_ALIGN(message->header.nlmsg_len) + attribute->rta_len;
}

static int change_route(int type, int flags, const struct route *route)
{
    struct route_message message = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)),
                   .nlmsg_type = type,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags},
        .route = {.rtm_family = AF_INET,
                  .rtm_dst_len = route->prefix,
                  .rtm_table = RT_TABLE_UNSPEC,
                  .rtm_protocol = RTPROT_STATIC,
                  .rtm_scope = route->gateway != 0 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
                  .rtm_type = RTN_UNICAST},
    };
    if (type == RTM_DELROUTE)
        message.route.rtm_scope = RT_SCOPE_NOWHERE;
    add_attribute(&message, RTA_TABLE, route->table);
    if (route->prefix > 0)
        add_attribute(&message, RTA_DST, route->destination);
    if (route->gateway != 0)
        add_attribute(&message, RTA_GATEWAY, route->gateway);
    if (route->source != 0)
        add_attribute(&message, RTA_PREFSRC, route->source);
    if (route->interface != 0)
        add_attribute(&message, RTA_OIF, route->interface);

    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return -1;
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
        char rest[256];
    } answer;
    int result = -1;
    if (send(fd, &message, message.header.nlmsg_len, 0) > 0 && recv(fd, &answer, sizeof answer, 0) > 0 &&
        answer.header.nlmsg_type == NLMSG_ERROR) {
        result = answer.error.error == 0 ? 0 : -1;
        errno = -answer.error.error;
    }
    close(fd);
    return result;
}

static int replace_route(const struct route *route)
{
    return change_route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route);
}

static int prefix_of(in_addr_t netmask)
{
    return __builtin_popcount(netmask);
}

int nic_set_gateway(const char *interface, in_addr_t gateway)
{
    struct nic nic;
    if (nic_read(interface, &nic) != 0)
        return -1;
    /* With the source given, the kernel drops these routes together with the address. */
    struct route route = {.table = RT_TABLE_MAIN,
                          .gateway = gateway,
                          .source = nic.address,
                          .interface = if_nametoindex(interface)};
    if (replace_route(&route) != 0)
        return -1;
    route.table = FABRIC_TABLE;
    return replace_route(&route);
}

int nic_set_address(const char *interface, in_addr_t address, in_addr_t netmask)
{
    struct nic before;
    if (nic_read(interface, &before) != 0)
        return -1;
    if (before.address != 0 && set_ifreq_address(interface, SIOCSIFADDR, 0) != 0)
        return -1;
    if (address == 0)
        return 0;
    if (set_ifreq_address(interface, SIOCSIFADDR, address) != 0 ||
        set_ifreq_address(interface, SIOCSIFNETMASK, netmask) != 0 ||
        set_ifreq_address(interface, SIOCSIFBRDADDR, address | ~netmask) != 0)
        return -1;
    struct route segment = {.table = FABRIC_TABLE,
                            .destination = address & netmask,
                            .prefix = prefix_of(netmask),
                            .source = address,
                            .interface = if_nametoindex(interface)};
    return replace_route(&segment);
}

int nic_set_mtu(const char *interface, int mtu)
{
    struct ifreq ifr = {.ifr_mtu = mtu};
    return interface_ioctl(interface, SIOCSIFMTU, &ifr);
}

int nic_set_up(const char *interface)
{
    struct ifreq ifr = {0};
    if (interface_ioctl(interface, SIOCGIFFLAGS, &ifr) != 0)
        return -1;
    ifr.ifr_flags |= IFF_UP;
    return interface_ioctl(interface, SIOCSIFFLAGS, &ifr);
}

int nic_add_sibling(in_addr_t sibling, in_addr_t source)
{
    struct route route = {.table = RT_TABLE_MAIN,
                          .destination = sibling,
                          .prefix = 32,
                          .source = source,
                          .interface = if_nametoindex(SIBLING_INTERFACE)};
    return replace_route(&route);
}

int nic_remove_sibling(in_addr_t sibling)
{
    struct route route = {.table = RT_TABLE_MAIN,
                          .destination = sibling,
                          .prefix = 32,
                          .interface = if_nametoindex(SIBLING_INTERFACE)};
    return change_route(RTM_DELROUTE, 0, &route);
}
