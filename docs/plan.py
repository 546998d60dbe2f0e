"""Draws docs/plan.png: what the three jobs take on up to 1,024 ranks with two networks, and prints where they stop.

python docs/plan.py             # from the rates that come with qkv: python/qkv/distributed/plan/rates.json
"""

from pathlib import Path

from qkv.distributed import plan
from qkv.distributed.plan import report

NETWORKS = ("ethernet-10", "infiniband-hdr")
RANKS = [2**i for i in range(11)]
JOBS = {
    "training, 86 million parameters, 1,024 items of 32 tokens": plan.Train(
        width=768, heads=12, layers=12, vocabulary=1000, batch=1024, length=32
    ),
    "causal attention, 32,768 positions, 8 heads of 64": plan.Attention(length=32_768, heads=8, features=64),
    "embedding 100,000 lines of 32 tokens, MiniLM": plan.Embed(lines=100_000),
}


def main():
    rates = plan.load_rates()
    curves = {
        title: {name: job.curve(RANKS, rates, name) for name in NETWORKS} for title, job in JOBS.items()
    }
    for job in JOBS.values():
        for name in NETWORKS:
            print(report.heading(job, rates, name, None), report.verdict(job, rates, name, None), sep="\n")
    figure, _ = report.picture(curves)
    figure.savefig(Path(__file__).with_name("plan.png"), dpi=100)


if __name__ == "__main__":
    main()
