/* What is told of sweeps: one job spec tried with several settings. */
declare namespace Api {
  type SweepState = 'running'|'cancelling'|'cancelled'|'succeeded'|'failed';
  type TrialState = 'waiting'|'running'|'succeeded'|'stopped'|'failed'|'cancelled';
  /** By pointer into the spec. */
  type Settings = {[pointer: string]: unknown};

  interface SweepParameter {
    pointer: string;
    scale: 'linear'|'log'|'int'|'choice';
    values?: unknown[];
    range?: [number, number];
    /** Of a grid. */
    steps?: number;
  }

  /** A sweep that is written. */
  interface SweepDraft {
    name?: string;
    spec?: Spec;
    parameters?: Partial<SweepParameter>[];
    method?: {type?: string};
    metric?: {name?: string, direction?: string};
  }

  /** A dry run. */
  interface SweepPlan {
    trials: number;
    jobs: number;
    rungs: {trials: number, epochs: number|null}[];
    /** Of the first 20 trials. */
    settings: Settings[];
  }

  interface SweepJob {
    id: string|null;
    rung: number;
    seed: number;
    state: State;
    metric: number|null;
  }

  interface Trial {
    number: number;
    settings: Settings;
    state: TrialState;
    /** The highest that it reached, 0 before its first job. */
    rung: number;
    metric: number|null;
    spread: number|null;
    jobs: SweepJob[];
  }

  interface SweepRow {
    id: string;
    name: string;
    owner: string|null;
    state: SweepState;
    created: string;
    finished: string|null;
    parameters: SweepParameter[];
    method: {type: string, trials?: number, eta?: number, rungs?: number[], epochs_at?: string};
    metric: {name: string, direction: 'max'|'min'};
    parallel: number;
    nodes: number;
    seeds: number;
    counts: {trials: number, jobs: number, active: number, ended: number, failed: number};
    best: {trial: number, metric: number, settings: Settings}|null;
  }

  interface Sweep extends SweepRow {
    spec: Spec;
    trials: Trial[];
  }
}
