// The plotting library with its style, loaded when the first plot is shown.

import "uplot/dist/uPlot.min.css";
import uPlot from "uplot";

/** A plot of one value over time. */
export interface Plot {
  /** Shows values at times in seconds since 1970; null is a gap. */
  show: (times: number[], values: (number | null)[]) => void;
  /** Changes the width in CSS pixels. */
  resize: (width: number) => void;
  /** Draws again, with the colours of now. */
  redraw: () => void;
  destroy: () => void;
}

/** Height of a plot in CSS pixels. */
const HEIGHT = 140;
/** Room for the values beside the plot, in CSS pixels. */
const LABELS = 70;

/** Makes a plot in an element. `limit` is the end of its scale; `words` tells a value. */
export function makePlot(
  parent: HTMLElement,
  limit: () => number,
  words: (value: number) => string,
  colour: (name: "accent" | "dim" | "line") => string,
): Plot {
  const axis = { stroke: () => colour("dim"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { show: false } };
  const plot = new uPlot({
    width: parent.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true }, y: { range: () => [0, limit()] } },
    series: [{}, { stroke: () => colour("accent"), width: 2, points: { show: false } }],
    axes: [axis, { ...axis, size: LABELS, space: 40, values: (_plot, values) => values.map((value) => words(value)) }],
  }, [[], []], parent);
  return {
    show: (times, values) => plot.setData([times, values]),
    resize: (width) => plot.setSize({ width, height: HEIGHT }),
    redraw: () => plot.redraw(),
    destroy: () => plot.destroy(),
  };
}
