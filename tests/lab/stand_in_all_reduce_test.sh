#!/bin/sh
# STAND-IN for HCCL Test's all_reduce_test: every rank leaves a note on its host, rank 0 prints a table. Nothing is
# reduced. Where /tmp/all_reduce_test.wrong is, the host's ranks say that their results are; where /tmp/all_reduce_test.hang
# is, they do not end.
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
size=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}
echo "rank $rank of $size with $* and $HCCL_WHITELIST_DISABLE$HCCL_IF_IP" > "/tmp/note.$rank"
while [ $# -gt 1 ]; do
    case $1 in
    -b) smallest=$2 ;;
    -e) largest=$2 ;;
    esac
    shift
done
[ -e /tmp/all_reduce_test.hang ] && exec sleep 3600
[ -e /tmp/all_reduce_test.wrong ] && echo "rank id $rank, check result failed"
[ "$rank" = 0 ] || exit 0
echo "the minbytes is $smallest, maxbytes is $largest, iters is 20, warmup_iters is 5"
echo "data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:"
# 700 us for the smallest, then as much more as the size: the real one's bandwidth counts 2^30 bytes as a GB.
awk -v size="$smallest" -v largest="$largest" 'BEGIN {
    for (; size <= largest; size *= 2) {
        us = 700 + size / 16384
        printf "%-18d| %11.2f |  %13.5f       | success\n", size, us, size / us * 1e6 / 2 ^ 30
    }
}'
