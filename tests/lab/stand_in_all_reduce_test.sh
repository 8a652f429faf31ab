#!/bin/sh
# STAND-IN for HCCL Test's all_reduce_test: every rank leaves a note on its host, rank 0 prints a table. Nothing is
# reduced. Where /tmp/all_reduce_test.wrong is, the host's ranks say that their results are.
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
[ -e /tmp/all_reduce_test.wrong ] && echo "rank id $rank, check result failed"
[ "$rank" = 0 ] || exit 0
echo "the minbytes is $smallest, maxbytes is $largest, iters is 20, warmup_iters is 5"
echo "data_size(Bytes): |   avg_time(us): | alg_bandwidth(GB/s): | check_result:"
echo "$smallest              |     700.00    |       0.01170        | success"
echo "$largest          |    2000.00    |       8.38861        | success"
