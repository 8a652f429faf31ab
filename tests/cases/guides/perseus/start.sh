#!/bin/bash
mpirun –allow-run-as-root –bind-to none -np 16 -npernode 8 \ 
    -x NCCL_DEBUG=INFO -x PATH -x LD_LIBRARY \
    -x PERSEUS_ALLREDUCE_STREAMS=8
    -hostfile mpi_host.txt ./train.sh
