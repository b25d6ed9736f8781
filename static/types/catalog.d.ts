/* What a job can name, with parameters and ranges, and networks as specs have them. */
declare namespace Api {
  /** A layer as a spec has it; what else it has depends on its type. */
  interface Layer {
    type: string;
    name?: string;
    [parameter: string]: any;
  }

  interface Network {
    input: number[];
    layers: Layer[];
    loss?: string;
  }

  interface Parameter {
    name: string;
    type: string;
    help?: string;
    min?: number;
    max?: number;
    choices?: string[];
    default?: string|number|boolean;
    required?: boolean;
  }

  interface CatalogEntry {
    name: string;
    help?: string;
    parameters?: Parameter[];
    /* of strategies */
    replicas?: 'alike'|'averaged'|'other';
    figure?: StrategyFigure;
    exchanges_every?: string;
  }

  interface StrategyFigure {
    series: string;
    title: string;
    subtitle: string;
    head: string;
    level: number|null;
  }

  interface Preset {
    name: string;
    parameters: number;
    model: Network;
  }

  interface Catalog {
    layer?: CatalogEntry[];
    strategy?: CatalogEntry[];
    optimizer?: CatalogEntry[];
    schedule?: CatalogEntry[];
    batching?: CatalogEntry[];
    format?: CatalogEntry[];
    preset?: Preset[];
  }
}
