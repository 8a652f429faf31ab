source env_npu.sh
export HCCL_WHITELIST_DISABLE=1
export HCCL_IF_IP=192.168.1.21
python3.7 -m torch.distributed.launch --nnodes=2 --node_rank=0 --nproc_per_node 8 --master_addr 192.168.1.21 --master_port 29501 main.py --addr 192.168.1.21
