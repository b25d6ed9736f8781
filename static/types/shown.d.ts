/* Samples as the API shows them: what a model takes for what, and a data set's own. */
declare namespace Api {
  interface Scored {
    samples: number;
    right: number;
    classes: ScoredClass[];
    confusion: number[][];
    worst: ScoredSample[];
  }

  interface DatasetShown {
    classes: DatasetClass[];
    examples: {sample: number; label: number | null; picture?: ScoredPicture}[];
  }

  interface DatasetClass {
    class: number;
    name: string | null;
    samples: number;
  }

  interface ScoredClass {
    class: number;
    name: string | null;
    samples: number;
    right: number;
  }

  interface ScoredSample {
    sample: number;
    label: number;
    answer: number;
    loss: number;
    picture?: ScoredPicture;
  }

  interface ScoredPicture {
    height: number;
    width: number;
    channels: number;
    values: string;
  }
}
