/* What the service's API answers with, as far as the page reads it (docs/http-api.md,
   /openapi.json). A field that may be missing or null is marked so here, and `make check-types`
   then demands that the page asks before it reads. Times of day are ISO 8601 texts; `seconds` are
   seconds. */
declare namespace Api {
  type State = 'queued'|'launching'|'running'|'pausing'|'paused'|'cancelling'|'cancelled'|
      'succeeded'|'failed';
  type NodeState = 'ready'|'busy'|'resting'|'draining'|'disabled'|'lost';

  interface Job {
    id: string;
    name: string;
    /** The name of the token that submitted it. */
    owner?: string|null;
    tags?: string[];
    note?: string|null;
    state: State;
    attempt: number;
    restarts?: number;
    priority: number;
    spec: Spec;
    created: string;
    started: string|null;
    finished: string|null;
    error: JobError|null;
    /** What a queued job waits for. */
    waiting: string|null;
    /** Of an elastic job, the newest last. */
    resizes?: Resize[];
    /** When its history was removed to make room. */
    pruned: string|null;
    progress?: Progress;
    metrics?: Metrics;
    staleness?: Staleness;
    staleness_recent?: Staleness;
    assignment?: {version?: number, global_batch?: number};
    workers?: Worker[];
    servers?: Server[];
    /** Since training began, on the job's own clock. */
    seconds?: number;
    /** What a job on virtual nodes took in all, once it has ended. */
    virtual_seconds?: number;
    rows_dropped?: number;
    /** What a user's own program brought when it joined. */
    program?: JobProgram;
    /** The newest value of each metric that it logged; null: NaN or infinite. */
    logged?: {[name: string]: number|null};
  }

  interface JobProgram {
    framework: string;
    optimizer: string;
    parameters: number;
    tensors: number;
    samples: number;
    global_batch: number;
    epochs: number;
  }

  interface Resize {
    attempt: number;
    from: number;
    to: number;
    reason: string;
    time: string;
    /** Without a step; null until it steps again. */
    seconds: number|null;
  }

  interface JobError {
    message?: string;
    code?: string;
    node?: string;
    rank?: number;
    attempt?: number;
    /** How its rank was lost. */
    lost?: string;
    program?: ProgramEnd;
  }

  /** What is not known is null. */
  interface ProgramEnd {
    exit_code: number|null;
    signal: string|null;
    exception: string|null;
    file: string|null;
    line: number|null;
    reason: string|null;
    last_line: string|null;
    every_rank: {epoch: number, step: number}|null;
  }

  interface Progress {
    epoch: number;
    epochs: number;
    step: number;
    samples: number;
    fraction: number;
  }

  interface Metrics {
    train_loss?: number|null;
    test_loss?: number|null;
    test_accuracy?: number|null;
    best_test_accuracy?: number|null;
    samples_per_second?: number|null;
    step_seconds?: number|null;
  }

  /** In versions; `histogram[s]` counts updates of staleness s. */
  interface Staleness {
    update_mean?: number;
    node_mean?: number;
    mean?: number;
    p50?: number;
    p95?: number;
    max?: number;
    histogram?: number[];
  }

  interface NodeStaleness extends Staleness {
    node: string;
  }

  interface Worker {
    rank: number;
    node: string;
    device: string;
    state: string;
    batch: number;
    samples_per_second: number;
    /** Left out by an older service. */
    load_seconds?: number;
    compute_seconds: number;
    exchange_seconds: number;
    wait_seconds: number;
    staleness?: Staleness|null;
    samples?: number;
    updates?: number;
    heartbeat_age_seconds?: number|null;
    /** While the data set is sent to it. */
    receiving?: {bytes: number, of_bytes: number}|null;
    /** The line that its minibatch is made from. */
    fit?: {fixed_seconds: number, seconds_per_sample: number, error: number};
  }

  interface Server {
    rank: number;
    host: string;
    version: number;
    busy_fraction: number;
    state: string;
    device?: string;
    heartbeat_age_seconds?: number|null;
  }

  interface Spec {
    name?: string;
    model?: string|{layers?: {units?: number}[], loss?: string};
    /** A user's own program, in place of model and data. */
    program?: {name?: string, digest?: string, command?: string[], args?: string[]};
    data?: {
      format?: string,
      path?: string,
      samples?: number,
      test_samples?: number,
      /** Of a rank, that decode images. */
      threads?: number
    };
    optimizer?: {type?: string, learning_rate?: number, momentum?: number, schedule?: Schedule};
    strategy?: {type?: string, servers?: number};
    batching?: {policy?: string, global_batch?: number, sizes?: number[], weights?: number[]};
    target?: {test_accuracy?: number};
    /** A virtual cluster; the job runs on the simulator. */
    cluster?: unknown;
    workers?: number;
    elastic?: {min: number, max: number};
    /** Names of nodes, or labels. */
    nodes?: string[];
    /** A safetensors file, or what and from where. */
    init?: string|{path: string, 'continue'?: boolean, allow?: string[]};
    epochs?: number;
    seed?: number;
    max_restarts?: number;
    max_seconds?: number;
    tags?: string[];
    note?: string;
  }

  /** A program that jobs can name: an operator's, or one that was uploaded. */
  interface Program {
    kind: string;
    name?: string;
    digest?: string;
    files?: number;
    by?: string;
    description?: string;
  }

  interface Schedule {
    type?: string;
    factor?: number;
    floor?: number;
    at_epochs?: number[];
    warmup_epochs?: number;
  }

  interface Assignment {
    version: number;
    step: number;
    time: string;
    reason: string;
    /** Minibatch by node. */
    batches?: {[node: string]: number};
    predicted_step_seconds: number;
    measured_step_seconds: number;
  }

  interface Evaluation {
    step: number;
    epoch: number;
    time: number;
    samples: number;
    /** NaN (null on the wire): it became infinite, or was not told */
    loss: number;
    /** NaN (null on the wire): the loss mse has none, and a program need not tell it */
    accuracy: number;
    /** Of how many samples; not those that a program tells. */
    test_samples?: number;
  }

  interface Checkpoint {
    step: number;
    time: number;
  }

  /** A curve: the least, greatest and mean of each bucket; null where a bucket has no value. */
  interface Series {
    name: string;
    node?: string|null;
    x: number[];
    min: (number|null)[];
    max: (number|null)[];
    mean: (number|null)[];
    total_points: number;
  }

  interface NodeRows {
    node: string;
    rows: Row[];
  }

  interface Artifact {
    name: string;
    bytes: number;
    sha256?: string;
  }

  interface Node {
    name: string;
    host?: string;
    device: string;
    memory_bytes?: number;
    slowdown: number;
    state: NodeState;
    job?: string|null;
    drained: boolean;
    disabled: boolean;
    /** Its host is not heard of. */
    silent: boolean;
    heartbeat_age_seconds?: number;
    gpu?: Gpu|null;
    /** Versions of its python3 and of what programs may need. */
    packages?: {[name: string]: string};
  }

  /** How busy a node's host was: means over `seconds` that ended `at`, oldest first. */
  interface NodeLoad {
    now: number;
    at: number[];
    seconds: number[];
    cpu: (number|null)[];
    memory_used_bytes: (number|null)[];
    memory_bytes: (number|null)[];
    received_bytes_per_second: (number|null)[];
    sent_bytes_per_second: (number|null)[];
    gpu_busy: (number|null)[];
    gpu_memory_used_bytes: (number|null)[];
    gpu_memory_bytes: (number|null)[];
  }

  interface Gpu {
    busy?: number;
    memory_used_bytes?: number;
    memory_bytes?: number;
    celsius?: number;
    watts?: number;
  }

  /** A host whose agent asks to join and may not. */
  interface Refusal {
    host: string;
    address?: string;
    message: string;
    hint?: string;
  }

  interface Dataset {
    path: string;
    format: string;
    samples: number;
    test_samples: number;
    /** Height, width, channels, or a length; not of pictures, which are resized. */
    shape?: number[];
    /** 0 or null: targets that are no labels. */
    classes?: number|null;
    digest?: string|null;
  }

  /** What an upload of a data set is answered with. */
  interface UploadedDataset {
    path: string;
    digest: string;
    files: number;
    bytes: number;
    format: string;
    samples: number;
  }

  /** A fault of a request at one place of its document. */
  interface Fault {
    pointer: string;
    message: string;
  }

  interface Problem {
    title?: string;
    detail?: string;
    hint?: string|null;
    errors?: Fault[]|null;
  }

  interface Session {
    role?: string;
    /** Whose jobs are one's own. */
    owner?: string;
    name?: string;
  }

  interface AuditEntry {
    time: string;
    who: string;
    role: string;
    by: 'token' | 'session' | 'nobody';
    from: string;
    method: string;
    path: string;
    status: number;
    note: string;
    omitted?: number;
  }

  /** What an event of the stream holds, by its type. */
  interface EventData {
    job: {
      id?: string,
      from?: State,
      state?: State,
      attempt?: number,
      priority?: number,
      error?: JobError|null
    };
    live: Partial<Job>;
    rows: {rows?: unknown[]};
    evaluation: Evaluation;
    assignment: Assignment;
    staleness: {nodes: NodeStaleness[]};
    node: {};
    log: {
      type?: string,
      step: number,
      time: number,
      rank?: number,
      node?: string,
      message?: string
    };
    deleted: {id?: string};
    gap: {};
  }
}
