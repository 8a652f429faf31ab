/* STAND-IN: one real ICMP echo, see nic.h. */
#include "nic.h"

#include <errno.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint16_t checksum(const uint8_t *data, int size)
{
    uint32_t sum = 0;
    for (int i = 0; i < size; i++)
        sum += i % 2 == 0 ? data[i] << 8 : data[i];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons(~sum & 0xffff);
}

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static enum echo send_failure(int error)
{
    switch (error) {
    case EMSGSIZE:
        return ECHO_TOO_LONG;
    case EHOSTUNREACH:
    case ENETUNREACH:
        return ECHO_UNREACHABLE;
    default:
        return ECHO_FAILED;
    }
}

/* Is this packet our reply (or the news that there will be none)? ECHO_TIMEOUT means "neither, wait on". */
static enum echo judge(const uint8_t *packet, int size, const struct icmphdr *request)
{
    int header = (packet[0] & 15) * 4;
    if (size < header + 8)
        return ECHO_TIMEOUT;
    const struct icmphdr *icmp = (const struct icmphdr *)(packet + header);
    if (icmp->type == ICMP_ECHOREPLY && icmp->un.echo.id == request->un.echo.id &&
        icmp->un.echo.sequence == request->un.echo.sequence)
        return ECHO_REPLY;
    if (icmp->type == ICMP_DEST_UNREACH && size >= header + 8 + 20 + 8) {
        const uint8_t *inner = packet + header + 8;
        const struct icmphdr *ours = (const struct icmphdr *)(inner + (inner[0] & 15) * 4);
        if ((const uint8_t *)ours + 8 <= packet + size && ours->un.echo.id == request->un.echo.id)
            return icmp->code == ICMP_FRAG_NEEDED ? ECHO_TOO_LONG : ECHO_UNREACHABLE;
    }
    return ECHO_TIMEOUT;
}

static enum echo exchange(int fd, const struct sockaddr_in *target, uint8_t *packet, int size, int timeout_ms,
                          double *milliseconds)
{
    static uint8_t answer[65536];
    double start = now_ms();
    if (sendto(fd, packet, size, 0, (const struct sockaddr *)target, sizeof *target) < 0)
        return send_failure(errno);
    for (;;) {
        /* Also once the time is over: a process that had to wait for the processor finds its answer here. */
        double left = timeout_ms - (now_ms() - start);
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, left > 0 ? (int)left + 1 : 0) == 0)
            return ECHO_TIMEOUT;
        int received = recv(fd, answer, sizeof answer, 0);
        if (received < 0)
            return send_failure(errno);
        enum echo result = judge(answer, received, (const struct icmphdr *)packet);
        if (result != ECHO_TIMEOUT) {
            *milliseconds = now_ms() - start;
            return result;
        }
    }
}

/* Send one echo by `fd`, which knows the way, and close it. */
static enum echo echo_by(int fd, in_addr_t target, uint16_t sequence, int size, int timeout_ms, double *milliseconds)
{
    int total = (int)sizeof(struct icmphdr) + size;
    uint8_t *packet = calloc(1, total);
    struct icmphdr *header = (struct icmphdr *)packet;
    header->type = ICMP_ECHO;
    header->un.echo.id = htons(getpid() & 0xffff);
    header->un.echo.sequence = htons(sequence);
    header->checksum = checksum(packet, total);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = target};
    enum echo result = exchange(fd, &to, packet, total, timeout_ms, milliseconds);
    free(packet);
    close(fd);
    return result;
}

enum echo nic_echo(in_addr_t target, uint16_t sequence, int size, int timeout_ms, double *milliseconds)
{
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    if (fd < 0)
        return ECHO_FAILED;
    int tos = FABRIC_TOS, uncut = IP_PMTUDISC_DO;
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &uncut, sizeof uncut);
    setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof tos);
    return echo_by(fd, target, sequence, size, timeout_ms, milliseconds);
}

enum echo nic_sibling_echo(in_addr_t target, uint16_t sequence, int size, int timeout_ms, double *milliseconds)
{
    int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
    if (fd < 0)
        return ECHO_FAILED;
    if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, SIBLING_INTERFACE, sizeof SIBLING_INTERFACE) != 0) {
        close(fd);
        return ECHO_FAILED;
    }
    return echo_by(fd, target, sequence, size, timeout_ms, milliseconds);
}
