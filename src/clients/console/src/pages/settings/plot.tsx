// Bars of figures by month. The numbers themselves are in a table of the page.

import type uPlot from "uplot";
import { createResource, onCleanup, onMount, Show } from "solid-js";

/** Height of a plot, in pixels. */
const HEIGHT = 200;

/** Returns a colour of theme.css as the canvas takes it: the value of the variable depends on the scheme. */
function colour(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

async function library() {
  const [{ default: Plot }] = await Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]);
  return Plot;
}

/** Bars of one series; `label` says what they are, `names` has the name of each. */
export function Bars(props: { label: string; names: readonly string[]; values: readonly number[] }) {
  const [plot] = createResource(library);
  return (
    <Show when={plot.error === undefined} fallback={<p class="dim">The plot could not be loaded; the table has its numbers.</p>}>
      <Show when={plot.state === "ready" && plot.latest} fallback={<p class="dim" role="status">Loading the plot…</p>}>
        {(Plot) => <Drawn Plot={Plot()} label={props.label} names={props.names} values={props.values} />}
      </Show>
    </Show>
  );
}

function Drawn(props: { Plot: typeof uPlot; label: string; names: readonly string[]; values: readonly number[] }) {
  let place!: HTMLDivElement;
  onMount(() => {
    const { Plot } = props;
    const dim = () => colour(place, "--dim");
    const bars = Plot.paths.bars?.({ size: [0.6, 60] });
    const data: uPlot.AlignedData = [props.values.map((_, at) => at), [...props.values]];
    const grid = { stroke: () => colour(place, "--line"), width: 1 };
    const options: uPlot.Options = {
      width: place.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: [-0.5, props.values.length - 0.5] }, y: { range: (_self, _min, max) => [0, Math.max(max, 1)] } },
      axes: [
        { stroke: dim, grid: { show: false }, incrs: [1, 2, 4], values: (_self, marks) => marks.map((at) => props.names[at] ?? "") },
        { stroke: dim, grid, ticks: grid },
      ],
      series: [{}, { label: props.label, fill: () => colour(place, "--accent"), ...(bars && { paths: bars }), points: { show: false } }],
    };
    const drawn = new Plot(options, data, place);
    const sizes = new ResizeObserver(() => drawn.setSize({ width: place.clientWidth, height: HEIGHT }));
    sizes.observe(place);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => drawn.redraw();
    scheme.addEventListener("change", redraw);
    onCleanup(() => {
      scheme.removeEventListener("change", redraw);
      sizes.disconnect();
      drawn.destroy();
    });
  });
  return <div ref={place} class="settings-plot" role="img" aria-label={props.label} />;
}
