/* What a dry run answers with: where a job would run, and what the simulator predicts of it. */
declare namespace Api {
  interface PlannedNode {
    rank: number;
    node: string;
    device: string;
    /** null: not known before a program has run. */
    batch?: number|null;
    memory_bytes?: number;
  }

  interface OutlinedLayer {
    name: string;
    type: string;
    shape: number[];
    parameters: number;
  }

  interface StrategyPrediction {
    strategy: string;
    chosen?: boolean;
    /** By a trial on the cluster, not predicted. */
    measured?: boolean;
    step_seconds: number;
    step_seconds_least?: number;
    step_seconds_most?: number;
    samples_per_second: number;
    /** Of one under sync. */
    sample_worth?: number|null;
    /** Workers' parameters drift apart between averages. */
    replicas_drift?: boolean;
    epoch_seconds?: number;
    staleness?: {update_mean?: number, max?: number};
    memory_bytes?: number;
    /** Of the chosen one. */
    workers?: PredictedWorker[];
  }

  interface PredictedWorker {
    node: string;
    batch: number;
    compute_seconds: number;
    exchange_seconds: number;
    wait_seconds: number;
  }

  interface VirtualNode {
    name: string;
    fixed_seconds?: number;
    seconds_per_sample: number;
    jitter?: number;
  }

  interface Cluster {
    nodes: VirtualNode[];
    groups?: string[][];
  }

  interface Prediction {
    reason?: string;
    /** The virtual nodes that were simulated. */
    cluster?: Cluster|null;
    strategies?: StrategyPrediction[];
  }

  /** What a valid spec will perhaps not be meant to do. */
  interface Warning extends Fault {
    code: string;
  }

  /** The answer to a valid POST jobs?dryRun=true. */
  interface DryRun {
    spec?: Spec;
    /** Null: a program brings its own. */
    parameters?: number|null;
    layers?: OutlinedLayer[];
    /** Of one sample. */
    activation_bytes?: number;
    nodes?: PlannedNode[];
    warnings?: Warning[];
    starts?: string;
    samples?: number;
    prediction?: Prediction;
  }
}
