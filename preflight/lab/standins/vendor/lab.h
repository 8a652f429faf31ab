/* What a stand-in tool knows about the lab host it runs on.
 *
 * STAND-IN: part of the lab of preflight, not of any vendor's software. The lab puts these below LAB_PRIVATE:
 *   product       one word: atlas-a1, atlas-a2 or atlas-a3
 *   device/N      the network namespace of device N (a mount that setns(2) takes)
 *   state/N       key=value lines: what a real device would hold in its own memory (netdetect, tls), and what a fault
 *                 lets the tools tell of it
 *   state/settings  the same: call_ms, how much longer a call takes; linger_s, for torch_npu
 *   state/fabric  the same: leaf_N and port_N, the switch and its port at the other end of device N's cable
 *   link/N        what device N remembers of its link, see link_history.h
 *   process/N/PID locked by a process for as long as it uses device N
 *   hccp/N        locked by the process that has a communicator on device N, and some time after it was killed
 *   superpod      the same, on an atlas-a3: pod, size, server
 *   mode          one word, where it is not the usual one: amp (NPUs of an atlas-a1), superpod (servers of atlas-a3)
 */
#ifndef LAB_H
#define LAB_H

#include <stdbool.h>
#include <stddef.h>

#define LAB_PRIVATE "/run/preflight-lab"
#define LAB_MAX_DEVICES 64

enum product { ATLAS_A1, ATLAS_A2, ATLAS_A3 };

enum product lab_product(void);
bool lab_mode_is(const char *mode);
bool lab_device_exists(int device);
int lab_device_count(void);

/* Move this process into the device's network namespace, and back. Both return 0, or -1 with errno. */
int lab_enter_device(int device);
int lab_leave_device(void);

/* Read one key of a file of key=value lines: false if it is not there. */
bool lab_get(const char *path, const char *key, char *value, size_t size);

/* Read or replace one key of the state of a device. */
bool lab_state_get(int device, const char *key, char *value, size_t size);
int lab_state_set(int device, const char *key, const char *value);

/* A number of the state of a device; `otherwise` if it is not there. */
long lab_state_number(int device, const char *key, long otherwise);

/* Let this call take as long as `preflight lab set call-ms` says. */
void lab_take_time(void);

/* Does a living process hold a lock on this file? */
bool lab_is_locked(const char *path);

#endif
