/* What the API says of a step: the columns of job/row.def. `make docs` makes this file. */
declare namespace Api {
  /** One step of one worker (GET jobs/ID/steps, and events). */
  interface Row {
    node: string;
    /** the model's version after the update; in averaging strategies the worker's own step */
    step: number;
    /** the worker's own steps so far */
    local_step?: number;
    /** the attempt of the job */
    attempt?: number;
    /** since the job's start; virtual in a virtual job */
    time: number;
    /** samples applied so far, divided by the samples of the training set */
    epoch: number;
    /** mean loss over the minibatch */
    loss: number|null;
    /** accuracy over the minibatch */
    accuracy: number|null;
    /** the minibatch */
    batch: number;
    /** from the step's start until the last gradient is ready, without waits and loading data */
    compute_seconds: number;
    /** exchange that computing did not hide, including the time to hand gradients over */
    exchange_seconds: number;
    /** waiting for other workers */
    wait_seconds: number;
    /** updates of the model while the gradient was computed */
    staleness: number;
    /** the strategy's own figure */
    strategy_value: number|null;
    /** sent and received for the step */
    bytes?: number;
    /** loading data that computing did not hide */
    load_seconds: number|null;
  }
}
