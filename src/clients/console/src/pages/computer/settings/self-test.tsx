// Self-test of a computer, as a table.

import { createSignal, For, Show } from "solid-js";
import { answerOf, api, type Computer, type Schemas } from "../../../api/service";
import { attempt, Button } from "../../../ui";
import { Part } from "./part";

/** A figure with the unit that its name ends with, such as "12.5 ms". */
function figure([name, value]: [string, number]): string {
  const units = [["_mb_per_s", "MB/s"], ["_per_s", "per second"], ["_ms", "ms"], ["_bytes", "bytes"]] as const;
  const unit = units.find(([suffix]) => name.endsWith(suffix));
  const words = (unit ? name.slice(0, -unit[0].length) : name).replaceAll("_", " ");
  return `${words}: ${Math.round(value * 10) / 10}${unit ? ` ${unit[1]}` : ""}`;
}

/** The button and its result. */
export function SelfTest(props: { computer: Computer }) {
  const [result, setResult] = createSignal<Schemas["SelfTest"]>();
  const [isBusy, setBusy] = createSignal(false);
  const run = async () => {
    setBusy(true);
    const params = { path: { id: props.computer.id } };
    const done = await attempt("The self-test did not run", () => answerOf(api.GET("/computers/{id}/selftest", { params })));
    setBusy(false);
    if (done) setResult(done);
  };
  const verdict = (result: Schemas["SelfTest"]) => {
    const seconds = Math.round(result.took_ms / 100) / 10;
    const failed = result.checks.filter((check) => check.outcome === "failed").length;
    return result.passed ? `Everything works. The test took ${seconds} s.` : `${failed} of ${result.checks.length} checks failed.`;
  };
  return (
    <Part title="Self-test">
      <p class="dim">
        Tests screen, input, commands, files and sound on a hidden screen, and measures them. It takes up to 75 seconds.
      </p>
      <div>
        <Button busy={isBusy()} disabled={props.computer.status !== "running"} onClick={() => void run()}>
          {isBusy() ? "Testing…" : "Run the self-test"}
        </Button>
      </div>
      <Show when={result()}>
        {(result) => (
          <>
            <p role="status" classList={{ bad: !result().passed }}>{verdict(result())}</p>
            <div class="scroll" tabindex="0" role="region" aria-label="Checks of the self-test">
              <table>
                <thead>
                  <tr><For each={["Check", "Outcome", "Detail", "Figures"]}>{(title) => <th scope="col">{title}</th>}</For></tr>
                </thead>
                <tbody>
                  <For each={result().checks}>
                    {(check) => (
                      <tr>
                        <th scope="row">{check.name}</th>
                        <td classList={{ bad: check.outcome === "failed" }}>{check.outcome}</td>
                        <td>{check.detail}</td>
                        <td>{Object.entries(check.figures).map(figure).join(", ")}</td>
                      </tr>
                    )}
                  </For>
                </tbody>
              </table>
            </div>
          </>
        )}
      </Show>
    </Part>
  );
}
