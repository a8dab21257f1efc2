// Processors, memory and disk of the computer over time.

import { createEffect, createMemo, createSignal, on, onCleanup, onMount, Show, untrack } from "solid-js";
import { every } from "../../../api/fetched";
import { attempt } from "../../../ui";
import { createColours } from "../colours";
import { inBytes } from "../../../ui/values";
import { pageVisible } from "../../../ui/visible";
import type { Plot } from "./plot";
import { KEPT, line, measure, PAUSE, type Sample } from "./samples";

/** What the computer uses, from now on. */
export function Resources(props: { computer: string }) {
  const [samples, setSamples] = createSignal<readonly Sample[]>([]);
  const [failure, setFailure] = createSignal<string>();
  const last = () => samples().at(-1);
  let isBusy = false;
  const look = async () => {
    if (isBusy) return;
    isBusy = true;
    const computer = untrack(() => props.computer);
    try {
      const sample = await measure(computer, untrack(last));
      if (computer === untrack(() => props.computer)) setSamples((all) => [...all, sample].slice(-KEPT));
      setFailure(undefined);
    } catch (error) {
      setFailure(error instanceof Error ? error.message : String(error));
    } finally {
      isBusy = false;
    }
  };
  createEffect(on(createMemo(() => props.computer), () => {
    setSamples([]);
    void look();
  }));
  every(PAUSE, pageVisible, () => void look());
  return (
    <section aria-labelledby="processes-resources">
      <h2 id="processes-resources">Resources</h2>
      <p class="dim">
        Measured every {PAUSE / 1000} seconds while this page is in view. That is no use of the computer: it may stop by itself
        meanwhile.
      </p>
      <Show when={failure()}>{(text) => <p class="bad" role="status">It cannot be measured now: {text()}. It is tried again.</p>}</Show>
      <div class="processes-plots">
        <Chart name="Processors" samples={samples()} value={(it) => it.cpu} limit={() => 100}
          words={(value) => `${Math.round(value)} %`} waits="The first figure comes with the second measurement." />
        <Chart name="Memory" samples={samples()} value={(it) => it.memory} limit={() => last()?.memoryTotal ?? 1}
          words={inBytes} waits="Measuring…" />
        <Chart name="Disk" samples={samples()} value={(it) => it.disk} limit={() => last()?.diskTotal ?? 1}
          words={inBytes} waits="This computer does not tell it; a restart brings its agent up to date." />
      </div>
    </section>
  );
}

function Chart(props: {
  name: string;
  samples: readonly Sample[];
  value: (sample: Sample) => number | undefined;
  limit: () => number;
  words: (value: number) => string;
  /** What is said while there is no figure. */
  waits: string;
}) {
  const colours = createColours("accent", "dim", "line");
  const [plot, setPlot] = createSignal<Plot>();
  let place!: HTMLDivElement;
  const now = () => {
    const sample = props.samples.at(-1);
    return sample && props.value(sample);
  };
  const text = () => {
    const value = now();
    if (props.samples.length === 0) return "Measuring…";
    return value === undefined ? props.waits : `${props.words(value)} of ${props.words(props.limit())}`;
  };
  const observer = new ResizeObserver(() => untrack(plot)?.resize(place.clientWidth));
  let isGone = false;
  onMount(async () => {
    const library = await attempt("The plots could not be loaded", () => import("./plot"));
    if (!library || isGone) return;
    setPlot(library.makePlot(place, () => untrack(props.limit), props.words, (name) => untrack(colours)[name]));
    observer.observe(place);
  });
  onCleanup(() => {
    isGone = true;
    observer.disconnect();
    plot()?.destroy();
  });
  createEffect(() => plot()?.show(...line(props.samples, props.value)));
  createEffect(() => {
    colours();
    plot()?.redraw();
  });
  return (
    <figure class="card">
      <figcaption><strong>{props.name}</strong> <span>{text()}</span></figcaption>
      <div ref={place} class="processes-plot" role="img" aria-label={`${props.name} over time: ${text()}`} />
    </figure>
  );
}
