/* STAND-IN: the answers of npu-smi. Each returns what the shell sees. */
#ifndef NPU_SMI_H
#define NPU_SMI_H

#include "chips.h"

#define NPU_SMI_FAILED 255
#define DRIVER_INFO "/usr/local/Ascend/driver/version.info"
#define FIRMWARE_INFO "/usr/local/Ascend/firmware/version.info"

void npu_smi_version(const char *path, char *value, size_t size);

/* npu_smi_table.c: `info` */
int npu_smi_table(const struct chip *chips, int count);

/* npu_smi_lists.c: `info -m`, `info -l`, `info -t topo`, and what others need of it */
int npu_smi_mapping(const struct chip *chips, int count);
int npu_smi_listing(const struct chip *chips, int count);
int npu_smi_topology(const struct chip *chips, int count);
int npu_smi_chips_of(int npu, const struct chip *chips, int count);
void npu_smi_field(const char *name, const char *format, ...);

/* npu_smi_typed.c: `info -t TYPE`; npu and chip are -1 where they were not given */
int npu_smi_typed(const char *type, int npu, int chip, const struct chip *chips, int count);

#endif
