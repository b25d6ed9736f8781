"""What a dry run of the service says of a job on a virtual cluster: the real service, asked by
`POST /api/v1/jobs?dryRun=true`, nothing queued."""
import simulator  # noqa: F401  (from there on tests/integration is found)
from service import Service

TRIES = 5  # a simulation of the dry run has seconds, which a loaded machine may not give it


def rows_of(service, job, cluster, strategies):
    """strategy → row of the prediction."""
    found = {}
    for _ in range(TRIES):
        answer = service.post("jobs?dryRun=true", {**job, "cluster": cluster})
        if answer.status_code != 200:
            raise RuntimeError(f"the dry run was refused: {answer.text}")
        for row in answer.json()["prediction"]["strategies"]:
            found[row["strategy"]] = row
        if set(strategies) <= set(found):
            return found
    raise RuntimeError(f"the dry run says nothing of {set(strategies) - set(found)}")


def of(cases, roots, strategies):
    """Name → prediction of each (name, job, cluster) of `cases`; data beneath `roots`."""
    with Service(nodes=(), data=roots) as service:
        return {name: rows_of(service, job, cluster, strategies)
                for name, job, cluster in cases}
