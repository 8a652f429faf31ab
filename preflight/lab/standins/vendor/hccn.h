/* STAND-IN: one call of hccn_tool, and the functions that answer it. */
#ifndef HCCN_H
#define HCCN_H

#include "hccn_error.h"
#include "nic.h"

#define HCCN_CONF "/etc/hccn.conf"

struct call {
    int device;
    char interface[16]; /* of the device, in its own namespace */
    int count;          /* words after the action */
    char **words;
};

typedef enum hccn_result hccn_function(const struct call *);

/* hccn_call.c: what several commands need */
const char *hccn_text_of(in_addr_t address);
const char *hccn_word_after(const struct call *call, const char *word);
enum hccn_result hccn_parse_address(const char *text, in_addr_t *address);
enum hccn_result hccn_parse_netmask(const char *text, in_addr_t *netmask);
enum hccn_result hccn_read_nic(const struct call *call, struct nic *nic);

/* hccn_conf.c: what /etc/hccn.conf says of a device */
bool hccn_conf_exists(void);
bool hccn_conf_get(const struct call *call, const char *key, char *value, size_t size);
enum hccn_result hccn_conf_set(const struct call *call, const char *key, const char *value);

/* The address of a device of this host; 0: none. */
in_addr_t hccn_address_of(int device);

/* hccn_settings.c: the device's settings. "apply" changes the device, "set" also writes /etc/hccn.conf. */
enum hccn_result hccn_apply_address(const struct call *call, in_addr_t address, in_addr_t netmask);
enum hccn_result hccn_apply_gateway(const struct call *call, in_addr_t gateway);
enum hccn_result hccn_apply_mtu(const struct call *call, const char *mtu);
hccn_function hccn_ip_set, hccn_ip_get, hccn_gateway_set, hccn_gateway_get, hccn_netdetect_set, hccn_netdetect_get,
    hccn_mtu_set, hccn_mtu_get, hccn_tls_set, hccn_tls_get;

/* hccn_port.c: the network port */
enum hccn_result hccn_apply_fec(const struct call *call, const char *mode);
hccn_function hccn_link_get, hccn_link_stat_get, hccn_link_stat_clear, hccn_speed_get, hccn_duplex_get, hccn_fec_get,
    hccn_fec_set, hccn_mac_get, hccn_status_get, hccn_bandwidth_get, hccn_stat_get;

/* hccn_optical.c: the module in it */
hccn_function hccn_optical_get;

/* hccn_neighbours.c: what is at the other end of the cable, and beyond */
hccn_function hccn_lldp_get, hccn_arp_get, hccn_route_get;

/* hccn_qos.c: priorities and ports of RoCE packets */
enum hccn_result hccn_apply_pfc(const struct call *call, const char *bitmap);
hccn_function hccn_pfc_get, hccn_pfc_set, hccn_dscp_to_tc_get, hccn_dscp_to_tc_set, hccn_udp_get;

/* hccn_jobs.c: what jobs use and leave behind; the server's number in its SuperPoD */
int hccn_superpod_server(void);
hccn_function hccn_process_get, hccn_hw_stats_get, hccn_vnic_get;

/* hccn_ping.c: whom the device reaches */
hccn_function hccn_net_health_get, hccn_ping_get, hccn_hccs_ping_get;

/* hccn_cfg.c: /etc/hccn.conf back to the device */
hccn_function hccn_cfg_status, hccn_cfg_recovery;

#endif
