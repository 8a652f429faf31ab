/* STAND-IN: see hccn.h. What is at the other end of the cable, and beyond: LLDP, ARP, routes. */
#include "hccn.h"
#include "lab.h"

#include <arpa/inet.h>
#include <string.h>

#define ROOM 1024
#define MODULE 4 /* NPUs of an atlas-a1 whose ports see each other's tables, unless it is in AMP mode */

/* Nothing is printed when there is no neighbour that speaks LLDP. */
enum hccn_result hccn_lldp_get(const struct call *call)
{
    char key[32], leaf[64], port[64];
    struct nic nic;
    snprintf(key, sizeof key, "leaf_%d", call->device);
    if (!lab_get(LAB_PRIVATE "/state/fabric", key, leaf, sizeof leaf))
        return HCCN_OK;
    snprintf(key, sizeof key, "port_%d", call->device);
    if (!lab_get(LAB_PRIVATE "/state/fabric", key, port, sizeof port))
        return HCCN_OK;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK || !nic.link)
        return result;
    printf("Chassis ID TLV\n\tMAC: 02:00:00:00:00:00\nPort ID TLV\n\tIfname: %s\nTime to Live TLV\n\t120\n", port);
    printf("System Name TLV\n\t%s\nSystem Description TLV\n\tSTAND-IN of the preflight lab\n", leaf);
    printf("System Capabilities TLV\n\tEnabled capabilities: Bridge, Router\nMaximum Frame Size TLV\n\t9216\n");
    printf("End of LLDPDU TLV\n");
    return HCCN_OK;
}

/* An SMP module shows the tables of all its ports, whichever of its NPUs is asked. */
static void ports_seen(const struct call *call, int *first, int *last)
{
    bool module = lab_product() == ATLAS_A1 && !lab_mode_is("amp");
    *first = module ? call->device / MODULE * MODULE : call->device;
    *last = module ? *first + MODULE - 1 : call->device;
}

static int neighbours_of(int device, const char *interface, struct nic_neighbour *list)
{
    if (!lab_device_exists(device) || lab_enter_device(device) != 0)
        return 0;
    int count = nic_neighbours(interface, list, ROOM);
    lab_leave_device();
    return count;
}

enum hccn_result hccn_arp_get(const struct call *call)
{
    static struct nic_neighbour list[ROOM];
    struct nic nic;
    int first, last;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    puts("arp table:");
    ports_seen(call, &first, &last);
    for (int device = first; device <= last; device++) {
        char interface[16];
        snprintf(interface, sizeof interface, "eth%d", device);
        int count = neighbours_of(device, interface, list);
        for (int i = 0; i < count; i++)
            if (list[i].mac[0] != '\0')
                printf("(%s) at %s [ether]  on %s\n", hccn_text_of(list[i].address), list[i].mac, interface);
            else
                printf("(%s) at <incomplete>  on %s\n", hccn_text_of(list[i].address), interface);
    }
    /* The driver's own network between host and device, which the lab has not; its line is always there. */
    printf("(192.168.1.1) at <incomplete>  on end%dv0\n", call->device % MODULE);
    return HCCN_OK;
}

static void print_route(const char *destination, const char *gateway, const char *netmask, const char *flags,
                        const char *interface)
{
    printf("%-15s %-15s %-15s %-5s %-6d %-4d %5d %s\n", destination, gateway, netmask, flags, 0, 0, 0, interface);
}

static void print_kernel_route(const struct nic_route *route, const char *interface)
{
    char destination[16], gateway[16], netmask[16], flags[5] = "U";
    snprintf(destination, sizeof destination, "%s", route->destination == 0 ? "default" : hccn_text_of(route->destination));
    snprintf(gateway, sizeof gateway, "%s", route->gateway == 0 ? "*" : hccn_text_of(route->gateway));
    snprintf(netmask, sizeof netmask, "%s", hccn_text_of(route->netmask));
    strcat(flags, route->gateway == 0 ? "" : "G");
    strcat(flags, route->netmask == INADDR_NONE ? "H" : "");
    print_route(destination, gateway, netmask, flags, interface);
}

enum hccn_result hccn_route_get(const struct call *call)
{
    static struct nic_route list[ROOM];
    char own[16];
    struct nic nic;
    int first, last;
    enum hccn_result result = hccn_read_nic(call, &nic);
    if (result != HCCN_OK)
        return result;
    puts(lab_product() == ATLAS_A1 ? "route table:" : "Routing table:");
    puts("Destination     Gateway         Genmask         Flags Metric Ref    Use Iface");
    ports_seen(call, &first, &last);
    for (int device = first; device <= last; device++) {
        char interface[16];
        snprintf(interface, sizeof interface, "eth%d", device);
        if (!lab_device_exists(device) || lab_enter_device(device) != 0)
            continue;
        int count = nic_routes(interface, list, ROOM);
        lab_leave_device();
        for (int i = 0; i < count; i++)
            print_kernel_route(&list[i], interface);
    }
    print_route("127.0.0.1", "*", "255.255.255.255", "UH", "lo");
    snprintf(own, sizeof own, "end%dv0", call->device % MODULE);
    print_route("192.168.1.0", "*", "255.255.255.0", "U", own);
    print_route("192.168.2.0", "*", "255.255.255.0", "U", own);
    return HCCN_OK;
}
