"""PyTorch's side of bench-exchange: gloo's all-reduce.   torch_gloo.py RANKS     reads "FLOATS
TIMES", prints seconds for one."""
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def run(rank, ranks, port, questions, answers):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank,
                            world_size=ranks)
    data = {}
    while (question := questions.get()) is not None:
        n, times = question
        x = data.setdefault(n, torch.zeros(n))
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(times):
            dist.all_reduce(x)
        if rank == 0:
            answers.put((time.perf_counter() - begin) / times)
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    fork = mp.get_context("spawn")
    questions, answers = [fork.Queue() for _ in range(ranks)], fork.Queue()
    processes = [fork.Process(target=run, args=(r, ranks, port, q, answers), daemon=True)
                 for r, q in enumerate(questions)]
    for p in processes:
        p.start()
    for line in sys.stdin:
        for q in questions:
            q.put(tuple(map(int, line.split())))
        print(answers.get(), flush=True)
    for q in questions:
        q.put(None)
    for p in processes:
        p.join()


if __name__ == "__main__":
    main()
