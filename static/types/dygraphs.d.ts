/* The part of dygraphs 2 that the page uses (https://dygraphs.com). */
declare namespace Dygraphs {
  interface Area {
    x: number;
    y: number;
    w: number;
    h: number;
  }

  interface Tick {
    v: number;
    label: string;
  }

  interface Point {
    canvasx: number;
    canvasy: number;
  }

  interface PlotterEvent {
    setName: string;
    color: string;
    points: Point[];
    drawingContext: CanvasRenderingContext2D;
  }

  interface InteractionContext {
    dragStartX: number;
    initializeMouseDown(event: MouseEvent, graph: Graph, context: InteractionContext): void;
  }

  interface InteractionModel {
    mousedown(event: MouseEvent, graph: Graph, context: InteractionContext): void;
    dblclick(event: MouseEvent, graph: Graph, context: InteractionContext): void;
  }

  interface Graph {
    destroy(): void;
    /** To the size that its element has now. */
    resize(): void;
    updateOptions(options: object, blockRedraw?: boolean): void;
    getArea(): Area;
    toDomXCoord(x: number): number;
    toDomYCoord(y: number): number;
    toDataXCoord(px: number): number;
    setSelection(row: number): void;
    clearSelection(): void;
  }

  interface Constructor {
    new(place: Element, rows: Page.ChartRow[], options: object): Graph;
    PLUGINS: unknown[];
    Plugins: {Axes: unknown, Grid: unknown};
    Plotters: {linePlotter: (event: PlotterEvent) => void};
  }
}
