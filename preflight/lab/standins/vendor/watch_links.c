/* STAND-IN for what a device's firmware does all the time: remember when its link came and went.
 *
 *   watch_links      started with the host; writes LAB_PRIVATE/link/N, see link_history.h
 */
#include "lab.h"
#include "link_history.h"

#include <linux/rtnetlink.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* A socket is told of the namespace in which it was made. */
static int listen_to_links_of(int device)
{
    struct sockaddr_nl links = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
    if (lab_enter_device(device) != 0)
        return -1;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    lab_leave_device();
    if (fd >= 0 && bind(fd, (struct sockaddr *)&links, sizeof links) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int main(void)
{
    static struct pollfd sockets[LAB_MAX_DEVICES];
    static char message[65536];
    int count = lab_device_count();
    for (int device = 0; device < count; device++) {
        sockets[device] = (struct pollfd){.fd = listen_to_links_of(device), .events = POLLIN};
        if (sockets[device].fd < 0 || link_history_begin(device) != 0) {
            perror("watch_links");
            return 1;
        }
    }
    while (poll(sockets, count, -1) >= 0)
        for (int device = 0; device < count; device++)
            if (sockets[device].revents != 0) {
                struct link_history history;
                recv(sockets[device].fd, message, sizeof message, MSG_DONTWAIT);
                link_history_update(device, &history);
            }
    return 1;
}
