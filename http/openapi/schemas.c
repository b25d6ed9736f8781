/* Documents of the API, in the notation of schemas.h. Units are in the names; what the words mean
 * exactly is in docs/http-api.md.
 */
#include "http/openapi/schemas.h"

#include "job/documents/people/warning.h"
#include "job/spec/spec.h"
#include "job/sweep/state.h"
#include "job/sweep/sweep.h"

/* The columns of a row that are shown (job/row.def): " step:integer loss:number? …" */
#define TYPE_INT64 "integer"
#define TYPE_UINT64 "integer"
#define TYPE_INT32 "integer"
#define TYPE_INT16 "integer"
#define TYPE_DOUBLE "number"
#define TYPE_FLOAT "number"
#define TYPE_FLOAT_OR_NULL "number?"
#define FIELD_NOWHERE(name, type)
#define FIELD_STEPS(name, type) " " #name ":" TYPE_##type
#define FIELD_EVENTS(name, type) FIELD_STEPS(name, type)
static const char row_fields[] =
#define COLUMN(name, type, byte, shown, merged, series, unit, help) FIELD_##shown(name, type)
#include "job/row.def"
    ;

const struct schema schemas[] = {
    {"Job",
     "id:id name:string owner:string? state:JobState attempt:integer priority:integer "
     "restarts:integer tags:Tags note:Note spec:JobSpec created:time "
     "started:time? finished:time? error:JobError? waiting:string? "
     "resizes:[Resize] disk_bytes:integer pruned:time? "
     "progress:Progress metrics:Metrics staleness:StalenessFigures "
     "staleness_recent:StalenessFigures assignment:AssignmentNow servers:[Server] workers:[Worker] "
     "~seconds:number ~virtual_seconds:number "
     "~rows_dropped:integer ~program:JobProgram ~logged:{number?}",
     "A job. Times are UTC with milliseconds. `owner`: the name of the token that submitted it, "
     "null for jobs of versions without owners; `disk_bytes`: what its folder took a few seconds "
     "ago; `pruned`: since when its history and checkpoints "
     "are gone, to make room; `seconds`: of training on the job's own clock, which stands still "
     "while it pauses, waits and starts; `virtual_seconds`: what a job on virtual nodes took in "
     "all; `logged`: the newest value of each metric that its program logged, by name, null where "
     "it became NaN or infinite."},
    {"Resize", "attempt:integer from:integer to:integer reason:string time:time seconds:number?",
     "An elastic job changed its size: with which attempt, between how many nodes, and how long it "
     "made no step; null until it steps again. The last 50."},
    {"JobState", "=" SCHEMA_JOB_STATES, "What becomes of a job; the last three are ends."},
    {"JobProgram",
     "framework:string optimizer:string parameters:integer tensors:integer samples:integer "
     "global_batch:integer epochs:number",
     "What a user's own program brought when it joined; `samples` are those of an epoch."},
    {"JobError",
     "code:string message:string rank:integer? node:string? attempt:integer? ~lost:string "
     "~phase:string ~age_seconds:number ~program:ProgramEnd",
     "Why an attempt failed; `code`: `peer` where a rank was lost, `not_finite` where the loss "
     "became NaN or infinite, `program`, `data`, `device`, …; `lost`: how that rank was lost, with "
     "the phase in which it was silent, and for how long; `program`: how a user's own program "
     "ended, where that is why."},
    {"ProgramEnd",
     "exit_code:integer? signal:string? exception:string? file:string? line:integer? "
     "reason:string? last_line:string? every_rank:StepOfEpoch?",
     "How a user's program ended: `exit_code` and `signal` (`SIGSEGV`) of its process, null for "
     "one that gave up by itself; the `exception` of Python, `KeyError: 'x'`, with the `file` and "
     "`line` that raised it; `reason`: why it cannot go on, where it says so (`es_failed`); "
     "`last_line` that it printed; `every_rank`: where the programs of all ranks ended alike."},
    {"StepOfEpoch", "epoch:integer step:integer", "A step within an epoch, both counted from 1."},
    {"Progress", "epoch:number epochs:number step:integer samples:integer fraction:number",
     "How far a job is."},
    {"Metrics",
     "train_loss:number? test_loss:number? test_accuracy:number? best_test_accuracy:number? "
     "samples_per_second:number step_seconds:number",
     "Figures of a job now; the best accuracy is that of all evaluations so far. train_loss: mean "
     "of the last 100 updates; samples_per_second, step_seconds: of the last five seconds, of a "
     "virtual job of all its time."},
    {"StalenessFigures",
     "update_mean:number node_mean:number sample_mean:number p50:integer p95:integer p99:integer "
     "max:integer",
     "Staleness in versions: the mean over updates, over nodes' own means, over samples; "
     "percentiles by nearest rank."},
    {"AssignmentNow", "version:integer global_batch:integer", "The assignment that holds."},
    {"Server",
     "rank:integer host:string version:integer busy_fraction:number heartbeat_age_seconds:number "
     "~state:string",
     "A server rank."},
    {"Worker",
     "rank:integer node:string device:string batch:integer samples_per_second:number "
     "load_seconds:number compute_seconds:number "
     "exchange_seconds:number wait_seconds:number staleness:WorkerStaleness "
     "heartbeat_age_seconds:number state:string "
     "~samples:integer ~updates:integer ~slowdown:number ~receiving:Receiving ~fit:StepFit",
     "A worker rank: what a step costs it, and its minibatch."},
    {"StepFit", "fixed_seconds:number seconds_per_sample:number error:number",
     "The line of computing time by minibatch that a node's minibatch is made from; `error`: its "
     "relative standard error. Only with dynamic minibatches."},
    {"Receiving", "bytes:integer of_bytes:integer",
     "How much of its data set, or of its uploaded program, has come from the keeper; it is left "
     "out where none comes."},
    {"WorkerStaleness", "mean:number max:integer ~p95:integer",
     "Staleness of a worker's gradients."},
    {"JobRow", "Job?",
     "A job in a list: with fields=, only its id and the keys that were asked for."},
    {"JobList", "jobs:[JobRow] next:string?",
     "A page of jobs; `next` is the cursor of the following one, or null."},
    {"JobPatch", "!~priority:priority ~tags:Tags ~note:Note",
     "What can be changed; what is left out stays."},
    {"DryRun",
     "valid:boolean spec:JobSpec parameters:integer? ~layers:[NetworkLayer] "
     "~activation_bytes:integer ~nodes:[PlannedNode] ~warnings:[Warning] "
     "~starts:string ~samples:integer? "
     "~test_samples:integer? ~prediction:Prediction",
     "What would become of a spec: with its defaults, where it would run, and when. "
     "`parameters`: null for a program, which brings its own; `activation_bytes`: of one sample."},
    {"Warning", "code:WarningCode pointer:string message:string",
     "What a valid spec will perhaps not be meant to do; the pointer (RFC 6901) says where it can "
     "be changed."},
    {"WarningCode", "=" WARNING_CODES,
     "`batch_unknown`: a program tells its global batch when it has joined; `batch_too_large`: the "
     "training set has fewer samples, which is what a step takes; `memory_short`: a node can "
     "hardly hold its minibatch; `nodes_short`: the job waits for nodes."},
    {"NetworkLayer", "name:string type:string shape:[integer] parameters:integer",
     "A layer of a network: `shape` is what it gives for a sample (height, width, channels, or a "
     "length)."},
    {"Prediction",
     "approximate:boolean reason:string? cluster:object? strategies:[PredictedStrategy]",
     "What the job would be like by the measured profiles of its nodes, simulated without "
     "gradients; `reason` says why there is none. `cluster`: the virtual nodes that were "
     "simulated, in the form of a spec's `cluster`; a dry run of the same job on them, changed, "
     "tells what would be if a node left or joined."},
    {"PredictedStrategy",
     "strategy:string chosen:boolean step_seconds:number step_seconds_least:number "
     "step_seconds_most:number samples_per_second:number sample_worth:number? "
     "replicas_drift:boolean epoch_seconds:number? staleness:StalenessFigures "
     "memory_bytes:integer ~workers:[PredictedWorker]",
     "The job under one strategy; one step is a whole global batch: the median of several "
     "simulated runs, the least and the greatest; memory is that of the node with the largest "
     "minibatch; `sample_worth`: how much of a sample under `sync` one is worth on the way to an "
     "accuracy, as was measured on virtual clusters, null: it was not; `replicas_drift`: workers' "
     "parameters drift apart between averages; the chosen strategy has its `workers`."},
    {"PredictedWorker",
     "node:string batch:integer compute_seconds:number exchange_seconds:number "
     "wait_seconds:number",
     "A worker's minibatch, and what one step of it takes."},
    {"PlannedNode", "rank:integer node:string device:string batch:integer? memory_bytes:integer?",
     "A rank's place and first minibatch."},
    {"Curves", "x:Axis series:[OneSeries]", "Curves over the axis `x`."},
    {"Axis", "=step|samples|time", "What a curve runs over; time is in seconds."},
    {"OneSeries",
     "name:string node:string? total_points:integer x:[number] min:[number?] max:[number?] "
     "mean:[number?]",
     "One curve, of a node or (null) of the job; bucket i begins at x[i]."},
    {"Norms",
     "tensors:[Tensor] left_out:integer total_points:integer x:[integer] epoch:[number] "
     "time:[number] weights:[[number?]] gradients:[[number?]]",
     "L2 norms of each tensor and of its gradient, measured now and then: a list for each of "
     "`tensors`, a value for each step of `x`, the greatest since the step before. The gradient is "
     "that of one worker's minibatch before any exchange, clipping and weight decay. null: it "
     "became NaN or infinite. `left_out`: tensors beyond the first 1024, which are not measured."},
    {"Tensor", "name:string elements:integer", "A tensor of the model's parameters."},
    {"Steps", "nodes:[NodeSteps]", "The last rows of each rank."},
    {"NodeSteps", "node:string rank:integer rows:[StepRow]",
     "The last rows of one rank, oldest first."},
    {"StepRow", row_fields + 1, "What a worker reported of one step."},
    {"WorkerList", "workers:[Worker] servers:[Server]", "A job's ranks."},
    {"Staleness", "nodes:[NodeStaleness]", "Staleness of each node."},
    {"NodeStaleness",
     "node:string ~rank:integer mean:number p50:integer p95:integer p99:integer max:integer "
     "histogram:[integer]",
     "histogram[t] counts the updates of staleness t."},
    {"AssignmentList", "assignments:[Assignment]", "Assignments, oldest first."},
    {"Assignment",
     "version:integer step:integer time:time reason:string batches:{integer} "
     "predicted_step_seconds:number? "
     "measured_step_seconds:number?",
     "A change of minibatches, and why. Of a step's computing: `measured_step_seconds` is how long "
     "the slowest node took with the minibatches before, 0 if that was not measured; "
     "`predicted_step_seconds` is how long it takes with these, in proportion to the measured one "
     "where there is one."},
    {"EvaluationList", "evaluations:[Evaluation]", "Results on the test set, oldest first."},
    {"Evaluation",
     "step:integer epoch:number time:number samples:integer loss:number? accuracy:number? "
     "~test_samples:integer",
     "One evaluation. A figure is null where it became infinite or was not told; the loss mse has "
     "no accuracy."},
    {"LoggedMetrics", "metrics:[LoggedMetric]",
     "Metrics that a user's program logged, in the order in which they first came."},
    {"LoggedMetric",
     "name:string total_points:integer x:[integer] epoch:[number] time:[number] min:[number?] "
     "max:[number?] mean:[number?]",
     "The values of one metric in buckets, each with its last step: the step after which the "
     "program logged it. null: a value of the bucket became NaN or infinite."},
    {"Scored",
     "model:string parameters:integer data:ScoredData device:string samples:integer loss:number "
     "accuracy:number right:integer classes:[ScoredClass]? confusion:[[integer]]? "
     "worst:[ScoredSample]?",
     "A model on a data set. `confusion`: a row for each label, a column for each answer; `worst`: "
     "up to 16 samples, the greatest loss first."},
    {"ScoredData", "format:string path:string part:string digest:string",
     "What it was evaluated on."},
    {"ScoredClass",
     "class:integer name:string? samples:integer right:integer answers:integer accuracy:number? "
     "precision:number?",
     "How one class is recognised. `accuracy`: right of `samples`; `precision`: right of "
     "`answers`."},
    {"ScoredSample",
     "sample:integer label:integer answer:integer loss:number? ~picture:ScoredPicture",
     "A sample: its number in the part, what it is, what was answered."},
    {"ScoredPicture", "height:integer width:integer channels:integer values:string",
     "A small picture: bytes as base64, row by row, channels last."},
    {"ArtifactList", "artifacts:[Artifact]", "Files that a job made."},
    {"Artifact", "name:string bytes:integer sha256:sha256", "A file and its digest."},
    {"SweepStart",
     "!~name:string? spec:object parameters:[SweepParameter] method:SweepMethod "
     "~metric:SweepMetric? ~parallel:integer(1,256)? ~nodes:integer(0,65536)? "
     "~seeds:integer(1,16)?",
     "A job spec (`spec`; what the parameters set may be missing) that is tried with several "
     "settings. `parallel`: jobs at a time, 1 by default; "
     "`nodes`: that these ask for in all, 0 (the default) for no limit; `seeds`: jobs of each "
     "trial, 1 by default."},
    {"SweepParameter",
     "!pointer:string ~values:[any]? ~range:[number(-1e15,1e15)]? ~scale:SweepScale? "
     "~steps:integer(2,100)?",
     "`pointer`: where in the spec (RFC 6901); `values`, or a `range` of the least and the "
     "greatest value, of which a grid takes `steps`."},
    {"SweepScale", "=linear|log|int|choice",
     "How a range is divided; `int`: into whole numbers; `choice` is that of values."},
    {"SweepMethod",
     "!type:SweepMethodType ~trials:integer(1,500)? ~seed:integer(0,9007199254740992)? "
     "~eta:integer(2,100)? ~rungs:[integer(1,1000000)]? ~epochs_at:string?",
     "`trials` and `seed`: how many are drawn, unless in a grid; of halving: `rungs`, epochs at "
     "which the best 1/`eta` (3 by default) of the trials go on; `epochs_at`: where a program "
     "takes its epochs, such as /program/args/1."},
    {"SweepMethodType", "=grid|random|halving",
     "All combinations, some that are drawn, or some of which the best are trained on."},
    {"SweepMetric", "!~name:string? ~direction:SweepDirection?",
     "What is compared: a figure of a job's metrics; test_accuracy by default."},
    {"SweepDirection", "=max|min", "Which value is the best; min for a loss by default."},
    {"Sweep",
     "id:id name:string owner:string? state:SweepState created:time finished:time? "
     "counts:SweepCounts best:SweepBest? parameters:[SweepParameter] method:SweepMethod "
     "metric:SweepMetric parallel:integer nodes:integer seeds:integer spec:object "
     "trials:[SweepTrial]",
     "A sweep: what was asked for, and what has become of it. Its jobs have the tag sweep:ID."},
    {"SweepPlan",
     "valid:boolean trials:integer jobs:integer rungs:[SweepPlanRung] settings:[{any}]",
     "What a sweep would be: its jobs if none fails, and the settings of the first 20 trials."},
    {"SweepPlanRung", "trials:integer epochs:integer?",
     "The trials of a rung, and the epochs at its end (of halving). A grid has one rung."},
    {"SweepRow", "Sweep?", "A sweep in a list, without its spec and trials."},
    {"SweepList", "sweeps:[SweepRow]", "Sweeps, the newest first."},
    {"SweepState", "=" SWEEP_STATE_NAMES,
     "What becomes of a sweep; it has succeeded if one trial has a result."},
    {"SweepCounts", "trials:integer jobs:integer active:integer ended:integer failed:integer",
     "How many trials there are; how many jobs were submitted, have not ended, have ended, and of "
     "these failed."},
    {"SweepBest", "trial:integer metric:number settings:{any}",
     "The best trial of those whose jobs all succeeded; of a halving, of the highest rung."},
    {"SweepTrial",
     "number:integer settings:{any} state:SweepTrialState rung:integer metric:number? "
     "spread:number? jobs:[SweepJob]",
     "One combination of settings, by pointer. `rung`: the highest that it reached, from 1, 0 "
     "before its first job; `metric`: there, the mean over its seeds, of which `spread` is the "
     "standard deviation."},
    {"SweepTrialState", "=waiting|running|succeeded|stopped|failed|cancelled",
     "stopped: it did not go on to the next rung."},
    {"SweepJob", "id:id? rung:integer seed:integer state:JobState metric:number?",
     "A job of a trial; of one that was deleted the state is cancelled."},
    {"NodeList", "nodes:[Node] refused:[RefusedHost]",
     "Nodes by name, and hosts whose agents asked to join within the last half minute and may "
     "not."},
    {"RefusedHost", "host:string address:string message:string hint:string age_seconds:number",
     "Why a host may not join, and what can be done."},
    {"Node",
     "name:string ~host:string ~device:string ~memory_bytes:integer ~threads:integer "
     "~slowdown:number ~labels:{string} "
     "state:NodeState job:id? drained:boolean disabled:boolean silent:boolean "
     "heartbeat_age_seconds:number "
     "failures:integer rest:Rest? ~quantum:integer ~precisions:[string] ~packages:{string} "
     "~interpreters:[Interpreter] ~asking:boolean ~description:string ~gpu:Gpu",
     "A node. `silent`: its host is not heard of, so it can be forgotten (`lost`, unless it is "
     "disabled). `failures`: attempts in a row that failed through it. `packages`: versions of its "
     "python3 and of the packages that programs may need. `interpreters`: what --python names on "
     "its host; the first is what runs programs that ask for python3. `asking`: the host's "
     "interpreters have not answered yet."},
    {"NodeLoad",
     "now:number at:[number] seconds:[number] cpu:[number?] memory_used_bytes:[number?] "
     "memory_bytes:[number?] received_bytes_per_second:[number?] "
     "sent_bytes_per_second:[number?] gpu_busy:[number?] gpu_memory_used_bytes:[number?] "
     "gpu_memory_bytes:[number?]",
     "How busy a node's host was: means over `seconds` that ended `at` (seconds since 1970, as "
     "`now`), oldest first: 2 s of the last half hour, a minute of the last day, 10 minutes of the "
     "last week. `cpu`: share of the processors that the host may use. Bytes are those of its "
     "network without loopback. null: not known, or the node has no GPU."},
    {"Interpreter", "path:string ~packages:{string} ~broken:{string}",
     "A Python for programs: versions of what can be imported, and why the rest cannot."},
    {"NodeState", "=ready|busy|resting|draining|disabled|lost",
     "Whether a node can be given a job."},
    {"Rest", "seconds:number reason:string",
     "A node through which two attempts in a row have failed gets no job for so long, and why."},
    {"Gpu",
     "index:integer ~name:string ~memory_bytes:integer ~memory_used_bytes:integer ~busy:number "
     "~celsius:integer ~watts:number",
     "A node's GPU as its driver tells, seconds ago at most; busy is a share of the last second. "
     "What it does not tell is left out."},
    {"Catalog",
     "strategy:[CatalogEntry] batching:[CatalogEntry] optimizer:[CatalogEntry] "
     "schedule:[CatalogEntry] "
     "layer:[CatalogEntry] format:[CatalogEntry] augment:[CatalogEntry] device:[CatalogEntry] "
     "preset:[Preset]",
     "Everything a job can name."},
    {"CatalogEntry",
     "name:string help:string parameters:[Parameter] ~replicas:StrategyReplicas "
     "~figure:StrategyFigure ~exchanges_every:string",
     "One thing a job can name. Strategies alone have the last three: `figure`, if their rows have "
     "a figure of their own, and `exchanges_every`, the parameter that is the number of steps from "
     "one exchange to the next."},
    {"StrategyReplicas", "=alike|averaged|behind|other",
     "alike: all workers have the same parameters after each step; averaged: workers' parameters "
     "drift apart, and are averaged now and then; behind: workers begin each round with the same "
     "parameters, which lack the last round's gradients; other: for example, a server has the "
     "parameters."},
    {"StrategyFigure", "series:string title:string subtitle:string head:string level:number?",
     "The series of a strategy's own figure, and its words as a chart and as a column of a table. "
     "`level`: its value where nothing is changed."},
    {"Parameter",
     "name:string type:string required:boolean help:string ~default:any ~min:number ~max:number "
     "~choices:[string]",
     "A parameter with its range."},
    {"Preset", "name:string parameters:integer model:object",
     "A network that can be named, written out."},
    {"DatasetList", "datasets:[Dataset]", "Data sets that were found."},
    {"Dataset",
     "path:string format:string ~shape:[integer] ~classes:integer? ~samples:integer "
     "~test_samples:integer ~digest:string?",
     "A data set."},
    {"DatasetShown",
     "path:string format:string samples:integer classes:[DatasetClass] examples:[DatasetExample]",
     "A data set's training samples: counts by class, and 16 of them. Targets that are not labels: "
     "no classes."},
    {"UploadedDataset",
     "path:string digest:sha256 files:integer bytes:integer uploaded:time by:string format:string "
     "samples:integer classes:[DatasetClass] examples:[DatasetExample]",
     "A data set that was uploaded, and what it shows. `digest`: SHA-256, in hex, of its files' "
     "names and contents."},
    {"DatasetClass", "class:integer name:string? samples:integer", "How many samples it has."},
    {"DatasetExample", "sample:integer label:integer? ~picture:ScoredPicture", "One sample."},
    {"ProgramList", "programs:[Program]", "Programs that jobs can name."},
    {"Program",
     "kind:ProgramKind ~name:string ~digest:sha256 ~files:integer ~bytes:integer ~uploaded:time "
     "~used:time ~by:string ~description:string ~command:[string] "
     "~arguments:{string} ~device:string ~needs:{string}",
     "A user's program. `kind`: operator (by name) or uploaded (by digest: SHA-256, in hex, of "
     "what is in it). What follows `by` is its "
     "manifest's."},
    {"ProgramKind", "=operator|uploaded", "Who brought a program."},
    {"Role", "=viewer|operator|programs|admin",
     "What a token allows; each may do what those before it may."},
    {"Session", "role:Role name:string owner:string cookie:boolean",
     "Who asks. `owner`: what the jobs that they submit have as owner."},
    {"SessionStart", "!token:string", "An API token, or the code of a link."},
    {"LinkStart", "!~role:Role",
     "The role that the link gives; admin by default. The body may be left out."},
    {"Link", "url:string role:Role seconds:integer",
     "An address for a browser; its fragment is a code for one use."},
    {"TokenList", "tokens:[Token]", "Tokens that there are, none of them itself."},
    {"Token",
     "id:id name:string role:Role source:TokenSource created:time? expires:time? by:string? "
     "expired:boolean",
     "A token: whose it is and what it allows. `by`: who issued it; what is null is not known, or "
     "(expires) never comes."},
    {"TokenSource", "=file|issued", "A line of the token file, or issued over the API."},
    {"TokenStart", "!name:string role:Role ~seconds:integer?",
     "`name`: its holder, who owns what it submits; `seconds`: how long it lives, 90 days by "
     "default, null for no end."},
    {"TokenMade",
     "id:id name:string role:Role source:TokenSource created:time expires:time? by:string "
     "expired:boolean token:string",
     "A token that was issued, the only time that it is shown."},
    {"Disk",
     "low:boolean full:boolean free_bytes:integer? used_bytes:integer? max_disk_bytes:integer? "
     "data_bytes:integer? can_go_bytes:integer jobs:[DiskJob]",
     "The data folder's disk, as seen within the last seconds. `low`: less than 32 MiB are free; "
     "`full`: less than 1 MiB, so that the store does not write; "
     "`used_bytes`: what all jobs, artifacts included, and uploaded programs take of "
     "`max_disk_bytes` (`--max-disk`); `data_bytes`: what uploaded data sets take besides "
     "(`--data-uploads`); `can_go_bytes`: history and checkpoints of jobs that have "
     "ended; `jobs`: the ten that finished first."},
    {"DiskJob", "id:id finished:string disk_bytes:integer can_go_bytes:integer",
     "What deleting the job would give back, and what pruning it alone would."},
    {"OwnerList", "owners:[Owner]", "Owners of jobs, by name."},
    {"Owner",
     "name:string queued:integer running:integer paused:integer ended:integer nodes:integer "
     "disk_bytes:integer quota:Quota",
     "What an owner has: jobs that wait, that run, that are paused, that have ended; nodes that "
     "these hold now; what their folders take."},
    {"Quota",
     "queued:integer? running:integer? nodes:integer? disk_bytes:integer? seconds:number? "
     "max_seconds:number? max_wall_seconds:number?",
     "What an owner may have; null: no limit. `seconds`: the max_seconds of a job whose spec gives "
     "none; `max_seconds`: the most that a spec may give; `max_wall_seconds`: the same of "
     "max_wall_seconds, and what a spec gets that does not say."},
    {"WebhookList", "webhooks:[Webhook]", "Webhooks, in no order."},
    {"Webhook",
     "id:id address:string states:[JobState] scope:WebhookScope owner:string created:time "
     "waiting:integer tries:[WebhookTry]",
     "An address that is told of changes of jobs. `waiting`: deliveries that are still to be sent; "
     "`tries`: what became of the last ones, newest first."},
    {"WebhookScope", "=own|all", "Whose jobs: those of the webhook's owner, or everybody's."},
    {"WebhookTry",
     "id:string type:string job:string time:time try:integer status:integer? message:string? "
     "outcome:WebhookOutcome next:time?",
     "One try to deliver. `id`: the delivery's, which every try of it has; `status`: the "
     "receiver's answer; `message`: why it failed; `next`: when it is tried again."},
    {"WebhookOutcome", "=delivered|waits|given_up",
     "waits: it is tried again; given_up: it failed for a day."},
    {"WebhookStart", "!address:string ~states:[JobState] ~scope:WebhookScope",
     "`address`: http or https; `states`: succeeded, failed and cancelled by default; `scope`: own "
     "by default, for admins all."},
    {"WebhookMade",
     "id:id address:string states:[JobState] scope:WebhookScope owner:string created:time "
     "secret:string",
     "A webhook that was made, the only time that its secret is shown."},
    {"Usage",
     "by:AccountingBy since:string until:string node_hours:number accounting:[AccountingRow]",
     "What was used from the beginning of one day to the end of another (UTC): days in their "
     "order, else the greatest use first. `node_hours`: of all rows."},
    {"AccountingBy", "=owner|job|day", "What the rows are."},
    {"AccountingRow",
     "owner:string? job:id? name:string? day:string? jobs:integer node_seconds:number "
     "node_hours:number",
     "A node counts from its claim for an attempt to its release, whatever it did; claims that "
     "hold count until now. `jobs`: how many had a node; what does not tell rows apart is null, as "
     "is the owner of jobs of nobody."},
    {"Audit", "entries:[AuditEntry] next:string?",
     "A page of the audit, newest first; `next` is the cursor of the following one, or null."},
    {"AuditEntry",
     "time:time who:string role:string token:string by:AuditBy from:string method:string "
     "path:string status:integer note:string request:string ~omitted:integer",
     "A request that may have changed something. `who`: the name of the token behind it, `token` "
     "its id; `from`: the address that the connection came from; `note`: what was changed; "
     "`omitted`: requests of nobody known before it that are not listed, because there were many."},
    {"AuditBy", "=token|session|nobody", "How the sender was known."},
    {"Event", "job:string type:EventType data:object",
     "What follows `data:` in the stream of events; `job` is empty for events of nodes."},
    {"EventType", "=job|live|rows|evaluation|assignment|staleness|log|node|deleted",
     "The name of an event, which its `event:` line repeats; hello and gap have no such document."},
    {"EventJob",
     "id:id name:string from:JobState? state:JobState attempt:integer priority:integer "
     "tags:Tags error:JobError?",
     "`data` of `job`: it was created, or its state, priority, tags or note changed."},
    {"EventLive",
     "progress:Progress metrics:Metrics staleness:StalenessFigures "
     "staleness_recent:StalenessFigures "
     "assignment:AssignmentNow servers:[Server] workers:[Worker]",
     "`data` of `live`: the live part of a job's document."},
    {"EventNode", "name:string change:string", "`data` of `node`."},
    {"EventDeleted", "id:id", "`data` of `deleted`."},
    {"Health", "status:string", "ok or ready."},
    {"OpenApi",
     "openapi:string info:object servers:[object] tags:[object] security:[object] paths:object "
     "components:object",
     "This description."},
    {"Problem",
     "type:string title:string status:integer detail:string errors:[ProblemError] hint:string?",
     "An error (RFC 9457), with every mistake at once."},
    {"ProblemError", "pointer:string message:string",
     "One mistake; the pointer (RFC 6901) says where in the document, or names the query "
     "parameter."},
    {NULL, NULL, NULL},
};
