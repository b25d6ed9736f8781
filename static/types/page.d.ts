/* The shapes that modules of the page hand each other. */
declare namespace Page {
  type Child = Node|string|number|boolean|null|undefined|Child[];

  /** Properties of an element: attributes by their names, and what dom.js treats otherwise. */
  interface Props {
    text?: string|number|null;
    on?: {[T in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[T]) => unknown};
    style?: {[name: string]: string};
    data?: {[name: string]: string|undefined};
    [attribute: string]: unknown;
  }

  /** A part of a view: made once, told what has changed ('all', 'live', 'job', …). */
  interface Part {
    node: Element;
    update(what: Set<string>): void;
    /** Where the part follows the pointer over the charts. */
    point?(): void;
    /** Draws what is drawn only while it can be seen. */
    complete?(): Promise<void>;
    close?(): void;
  }

  interface Route {
    args: string[];
    params: URLSearchParams;
    path: string;
    /** Whether the page is still the one that was asked for. */
    alive(): boolean;
  }

  interface View {
    close?(): void;
  }

  /** Four arrays of one length; NaN where there is no value. */
  interface Curve {
    x: number[];
    min: number[];
    max: number[];
    mean: number[];
    /** Points behind the curve, of which these are the buckets. */
    total: number;
  }

  /** A series of which each node has one, drawn as a chart; `head`: its word in a table. */
  interface Figure {
    series: string;
    title: string;
    subtitle: string;
    head?: string;
    level?: number|null;
  }

  interface Points {
    x: number[];
    y: number[];
  }

  type Axis = 'step'|'samples'|'time';
  type Range = [number, number];
  type MarkKind = 'change'|'lost'|'left'|'failed'|'restart'|'resume'|'resize'|'crash'|'rate'|
                  'checkpoint';

  /** Something that happened to the job, at its step (and time where that is known). */
  interface Mark {
    kind: MarkKind;
    step: number;
    time?: number;
    text: string;
    title: string;
    x: number;
  }

  interface Line {
    label: string;
    colour: string;
    width?: number;
    dash?: number[]|null;
    step?: boolean;
    shape?: string;
    shapeSize?: number;
    dot?: boolean;
  }

  interface Band {
    x: number[];
    min: number[];
    max: number[];
    mean: number[];
    colour?: string;
    /** Whether its mean is drawn too. */
    line?: boolean;
  }

  interface Area {
    x: number[];
    top: number[];
    bottom: number[];
    colour: string;
  }

  /** A horizontal line. */
  interface Level {
    y: number;
    style: 'ghost'|'target';
    text?: string;
  }

  /** A label at the right edge. */
  interface End {
    y: number;
    text: string;
    bold?: boolean;
    quiet?: boolean;
    mark?: string;
    icon?: () => Element;
  }

  interface Gap {
    from: number;
    to: number;
    text?: string;
  }

  type ChartRow = (number|null)[];

  interface ChartData {
    /** [x, y1, y2, …]; null where a line has no point. */
    rows: ChartRow[];
    /** In the order of the columns. */
    lines: Line[];
    range: number[];
    log?: boolean;
    ends?: End[];
    band?: Band|Band[];
    area?: Area;
    hlines?: Level[];
    gaps?: Gap[];
    ticks?: number[];
    empty?: string;
    note?: string;
    subtitle?: string;
  }

  interface ChartTable {
    heads: Child[];
    rows: Child[][];
  }

  interface ChartOptions {
    title: string;
    subtitle?: string;
    height?: number;
    format: (value: number) => string;
    yTicks?: number;
    /** Whether the x axis has its ticks. */
    axis?: boolean;
    table?: (() => ChartTable)|null;
    label?: string;
    /** A strip: without heading, table and tools. */
    compact?: boolean;
  }

  /** What is painted on: x() and y() change values into pixels. */
  interface Canvas {
    ctx: CanvasRenderingContext2D;
    area: Dygraphs.Area;
    x(value: number): number;
    y(value: number): number;
  }

  /** One node in a sentence; other parts are text. */
  type Word = string|{node: string};

  /** What can be done about it: an address of the page. */
  interface Action {
    text: string;
    href: string;
  }

  /** What a job's curves tell of its course, as far as it is known. */
  interface Learned {
    /** Train losses in the order of steps: means of buckets. */
    losses?: number[];
    tests?: Api.Evaluation[];
    /** Workers with their means over the whole run. */
    workers?: Api.Worker[];
    /** Share of the time between two steps that goes into loading data. */
    loading?: number;
    /** The catalogue's strategies; none: it has not been read. */
    strategies?: Api.CatalogEntry[];
    /** All nodes failed with the same words. */
    alike?: boolean;
  }

  interface Verdict {
    parts: Word[];
    evidence?: string;
    straggler?: string;
    /** The chart that shows it, by its data-chart. */
    chart?: string;
    action?: Action;
    /** Names the cause: the page changes its sentence at once only when the key changes. */
    key: string;
  }
}

interface Window {
  Dygraph: Dygraphs.Constructor;
  evenstepTheme: {choice(): string, set(wanted: string): void};
}
