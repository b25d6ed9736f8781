/* What a job measured beside its rows: norms of its tensors, metrics that its program logged. */
declare namespace Api {
  /** Norms of the model's tensors and their gradients: lists by tensor, values by step. */
  interface Norms {
    tensors: {name: string, elements: number}[];
    left_out: number;
    total_points: number;
    x: number[];
    epoch: number[];
    time: number[];
    weights: (number|null)[][];
    gradients: (number|null)[][];
  }

  /** A metric that a program logged, in buckets; null: a value became NaN or infinite. */
  interface LoggedMetric {
    name: string;
    total_points: number;
    /** The last step of each bucket. */
    x: number[];
    epoch: number[];
    time: number[];
    min: (number|null)[];
    max: (number|null)[];
    mean: (number|null)[];
  }
}
