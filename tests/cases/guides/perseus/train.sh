#!/bin/bash
python main.py --dist-url tcp://127.0.0.1:88 --dist-backend nccl -b 64
