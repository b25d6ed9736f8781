"""A Slurm of two nodes on this machine, for tests: munged, slurmctld and two slurmd in a folder of
their own on free ports, ended with the test. The machine's own Slurm, if there is one, is neither
used nor seen (SLURM_CONF)."""
import os
import pathlib
import shutil
import socket
import subprocess

from service import free_port, until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol")
CONF = """ClusterName=evenstep-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/ctld.pid
SlurmdPidFile={dir}/%n.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP MaxTime=60
"""


def reason_against():
    """Why there can be no Slurm here, or None."""
    if os.geteuid() != 0:
        return "slurmd and munged of a test run as root"
    missing = [p for p in PROGRAMS if not shutil.which(p)]
    return f"{', '.join(missing)} not installed (deploy/setup slurm)" if missing else None


class Slurm:
    def __init__(self, folder):
        self.dir, self.processes = pathlib.Path(folder), []
        self.env = {**os.environ, "SLURM_CONF": str(self.dir / "slurm.conf")}

    def spawn(self, *command):
        log = open(self.dir / f"{pathlib.Path(command[0]).name}-{len(self.processes)}.log", "wb")
        self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=self.env))
        log.close()

    def ask(self, *command, **kw):
        done = subprocess.run(command, env={**self.env, **kw}, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stderr}"
        return done.stdout

    def __enter__(self):
        munge, ports = self.dir / "munge", set()
        while len(ports) < 3:
            ports.add(free_port())
        munge.mkdir(mode=0o700)
        (self.dir / "state").mkdir()
        (munge / "key").write_bytes(os.urandom(64))
        (munge / "key").chmod(0o600)
        (self.dir / "slurm.conf").write_text(
            CONF.format(dir=self.dir, host=socket.gethostname().split(".")[0], ports=list(ports),
                        cpus=os.cpu_count()))
        self.spawn("munged", "--foreground", "--force", f"--key-file={munge}/key",
                   f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--log-file={munge}/log",
                   f"--seed-file={munge}/seed")
        for command in (["slurmctld", "-D"], ["slurmd", "-D", "-N", "n1"],
                        ["slurmd", "-D", "-N", "n2"]):
            self.spawn(*command)
        try:
            until(f"both nodes are idle; logs in {self.dir}",
                  lambda: self.nodes() == ["idle", "idle"], every=0.2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def nodes(self):
        done = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], env=self.env, capture_output=True,
                              text=True)
        return done.stdout.split()

    def batch(self, *words, **env):
        """Its number."""
        return int(self.ask("sbatch", "--parsable", *map(str, words), **env).strip())

    def state(self, job):
        """"COMPLETED 0:0": state and exit code."""
        words = dict(w.split("=", 1) for w in self.ask("scontrol", "-o", "show", "job", str(job))
                     .split() if "=" in w)
        return f"{words['JobState']} {words['ExitCode']}"

    def __exit__(self, *_):
        for job in subprocess.run(["squeue", "-h", "-o", "%i"], env=self.env, capture_output=True,
                                  text=True).stdout.split():
            subprocess.run(["scancel", job], env=self.env)
        for p in reversed(self.processes):
            p.terminate()
            try:
                p.wait(20)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
