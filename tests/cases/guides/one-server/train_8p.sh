#!/bin/bash
NPUS_PER_NODE=8
NNODES=1
NODE_RANK=0
MASTER_ADDR=localhost
MASTER_PORT=6004

export NPU_ASD_ENABLE=1
source ./test/env_npu.sh

DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank $NODE_RANK \
    --master_addr $MASTER_ADDR \
    --master_port $MASTER_PORT
"

torchrun $DISTRIBUTED_ARGS toy_train.py \       # the model
    --epochs 3                                  # passes over the data
    --batch-size 64                             # of one device
