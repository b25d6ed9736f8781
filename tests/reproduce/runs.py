"""Runs that were made, a small JSON file each: FOLDER/TABLE/KEY.json, KEY the digest of what ran.

For the full tables FOLDER is docs/results/runs, which is committed: runs add up over days and
machines. A file is written whole or not at all; one that the code of today would not make
(proofs.py) is left out and made again.
"""
import json
import os
import subprocess

from proofs import digest, write
from simulator import ROOT


def commit():
    said = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"],
                          capture_output=True, text=True)
    return os.environ.get("EVENSTEP_COMMIT") or said.stdout.strip() or "unknown"


class Runs:
    def __init__(self, folder, proofs):
        self.folder, self.proofs, self.commit, self.results = folder, proofs, commit(), {}
        os.makedirs(folder, exist_ok=True)

    @staticmethod
    def key(case):
        return digest([case["job"], case["cluster"]])

    def path(self, case):
        return os.path.join(self.folder, case["table"], self.key(case) + ".json")

    def get(self, case):
        """The result of a case, None where it has to be made."""
        key = (case["table"], self.key(case))
        if key not in self.results:
            self.results[key] = self.load(case)
        return self.results[key]

    def load(self, case):
        if os.environ.get("FRESH") or not os.path.exists(self.path(case)):
            return None
        with open(self.path(case)) as f:
            result = json.load(f)
        return result if self.proofs.holds(case, result["build"]) else None

    def keep(self, case, result):
        _, proof = self.proofs.of(case)
        told = {"row": case["row"], "rate": case["rate"], "seed": case["seed"],
                "form": case["form"], "setting": case["setting"],
                "job": digest(case["job"]), "cluster": digest(case["cluster"]),
                "build": {"commit": self.commit, "platform": self.proofs.platform, "proof": proof}}
        result = {**told, **result}
        os.makedirs(os.path.dirname(self.path(case)), exist_ok=True)
        write(self.path(case), result)
        self.results[case["table"], self.key(case)] = result
        return result
