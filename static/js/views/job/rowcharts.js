/* Columns of rows that have a chart of their own: CHART in job/row.def. `make docs` makes this
   file. */
// clang-format off
/** @type {Page.Figure[]} */
export const CHARTS = [
];
