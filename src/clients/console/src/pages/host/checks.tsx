// Checks of the host, as `hotdesk doctor` runs them: what is wrong, and what to do.

import { createMemo, createSignal, Show } from "solid-js";
import { answerOf, once, type Schemas } from "../../api/service";
import { attempt, Button, Since, Table } from "../../ui";

type Check = Schemas["HostCheck"];

/** Order of the states: what needs somebody comes first. */
const ORDER = ["failed", "warning", "ok"];

/** The section. Quick checks come with each report; the others run on demand, and their last results stay. */
export function Checks(props: { report: Schemas["HostReport"] }) {
  const [thorough, setThorough] = createSignal<Schemas["HostReport"]>();
  const [busy, setBusy] = createSignal(false);
  const slow = () => (thorough()?.checks ?? []).filter((check) => props.report.checks_left_out.includes(check.name));
  const checks = createMemo(() =>
    [...props.report.checks, ...slow()].sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state)));
  const counted = (state: string) => checks().filter((check) => check.state === state).length;
  const summary = () => {
    const [failed, warnings] = [counted("failed"), counted("warning")];
    if (failed + warnings === 0) return `All ${checks().length} checks are ok.`;
    return `${checks().length} checks: ${failed} failed, ${warnings} with a warning.`;
  };
  const runAll = async () => {
    setBusy(true);
    // Not repeated: it takes long, and a person waits.
    const found = await attempt("The checks did not finish", () =>
      answerOf(once.GET("/operator/host", { params: { query: { thorough: true } } })));
    if (found) setThorough(found);
    setBusy(false);
  };
  return (
    <section aria-labelledby="host-checks">
      <div class="bar">
        <h2 id="host-checks">Checks</h2>
        <span class="grow" />
        <Button busy={busy()} onClick={() => void runAll()}>{busy() ? "Running all checks…" : "Run all checks"}</Button>
      </div>
      <p role="status">{summary()}</p>
      <Show when={props.report.checks_left_out.length > 0}>
        <p class="dim">
          <Show when={thorough()} fallback={
            <>Not run, because they take longer: {props.report.checks_left_out.join(", ")}. All of them can take minutes.</>
          }>
            {(last) => <>The slower checks ran <Since time={last().measured_at} />.</>}
          </Show>
        </p>
      </Show>
      <Table label="Checks" columns={["State", "Requirement", "Result", "What to do"]} rows={checks()}>
        {(check) => <Row check={check} />}
      </Table>
    </section>
  );
}

function Row(props: { check: Check }) {
  return (
    <tr>
      <td><span class="host-state" data-state={props.check.state}>{props.check.state}</span></td>
      <td>{props.check.name}<Show when={props.check.isolations.length > 0}><br /><small>for {props.check.isolations.join(", ")}</small></Show></td>
      <td>{props.check.message}</td>
      <td>{props.check.remedy ?? ""}</td>
    </tr>
  );
}
