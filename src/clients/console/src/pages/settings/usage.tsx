// Usage of a client: hours and spend by month, computers of one month, CSV.

import { useSearchParams } from "@solidjs/router";
import { createResource, createSignal, Show } from "solid-js";
import { computers } from "../../api/live";
import { answerOf, api, fetchBlob, type Schemas } from "../../api/service";
import { attempt, Button, Field, Loaded, notify, Select, Table } from "../../ui";
import { createSteps, FormDialog } from "./parts";
import { Bars } from "./plot";

/** Months that are plotted: one request each, so half of what the service has. */
const MONTHS = 7;
/** Months that the service has: this one and the 13 before it (docs/api/accounts.md). */
const KNOWN_MONTHS = 14;

/** Returns the last months of UTC as `YYYY-MM`, the newest first. */
function lastMonths(count: number): string[] {
  const now = new Date();
  return Array.from({ length: count }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7));
}

/** Returns the usage of a month. The same address also answers CSV, which is text. */
async function usageOf(client: string, month: string): Promise<Schemas["ClientUsage"]> {
  const params = { path: { client_id: client }, query: { month } };
  const answer = await answerOf(api.GET("/v1/accounts/{client_id}/usage", { params }));
  if (typeof answer === "string") throw new Error("The service answered with text");
  return answer;
}

/** Returns an amount of US dollars in words. */
export const dollars = (amount: number) => new Intl.NumberFormat("en", { style: "currency", currency: "USD" }).format(amount);

const hours = (value: number) => value.toLocaleString("en", { maximumFractionDigits: 2 });

/** Usage of a client. The month is in the address. */
export function Usage(props: { client: Schemas["Client"] }) {
  const [query, setQuery] = useSearchParams<{ month: string }>();
  const known = lastMonths(KNOWN_MONTHS);
  const month = () => known.find((it) => it === query.month) ?? known[0] ?? "";
  const [history, { refetch: readHistory }] = createResource(() =>
    Promise.all(lastMonths(MONTHS).reverse().map((it) => usageOf(props.client.id, it))));
  const [usage, { refetch }] = createResource(month, (month) => usageOf(props.client.id, month));
  const [isRecording, setRecording] = createSignal(false);

  const download = () => attempt("The CSV was not downloaded", async () => {
    const blob = await fetchBlob(`/v1/accounts/${encodeURIComponent(props.client.id)}/usage?month=${month()}&format=csv`);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `usage-${props.client.external_id.replace(/[^\w.-]+/g, "-")}-${month()}.csv`;
    link.click();
    // The browser has taken the bytes by the next task.
    setTimeout(() => URL.revokeObjectURL(link.href));
  });
  return (
    <section class="stack" aria-label={`Usage of ${props.client.name}`}>
      <Loaded of={history} what="the months before" retry={() => void readHistory()}>
        {(history) => (
          <>
            <h3>Computer hours by month</h3>
            {/* An object, as every change draws anew. */}
            <Show when={history()} keyed>
              {(all) => <Bars label="Computer hours by month" names={all.map((it) => it.month)} values={all.map((it) => it.computer_hours)} />}
            </Show>
            <Table columns={["Month (UTC)", "Computer hours", "GB hours of RAM", "AI spend"]} rows={history()}>
              {(it) => <tr><td>{it.month}</td><td>{hours(it.computer_hours)}</td><td>{hours(it.ram_gb_hours)}</td><td>{dollars(it.ai_spend_usd)}</td></tr>}
            </Table>
          </>
        )}
      </Loaded>
      <div class="bar">
        <Select label="Month" value={month()} options={known.map((it) => ({ value: it, label: it }))}
          onChange={(month) => setQuery({ month })} />
        <span class="grow" />
        <Button onClick={() => setRecording(true)}>Record AI spend</Button>
        <Button onClick={() => void download()}>Download CSV</Button>
      </div>
      <Loaded of={usage} what="the usage" retry={() => void refetch()}>{(usage) => <Month usage={usage()} />}</Loaded>
      <RecordSpend open={isRecording()} client={props.client.id} onClose={() => setRecording(false)}
        onRecorded={() => { void refetch(); void readHistory(); }} />
    </section>
  );
}

function Month(props: { usage: Schemas["ClientUsage"] }) {
  const { shown, More } = createSteps(() => props.usage.computers);
  return (
    <>
      <p>
        {props.usage.month}: {hours(props.usage.computer_hours)} computer hours, {hours(props.usage.ram_gb_hours)} GB hours
        of RAM, {dollars(props.usage.ai_spend_usd)} for AI models.
      </p>
      <Show when={props.usage.computers.length > 0} fallback={<p class="dim">No computer ran in this month.</p>}>
        <Table columns={["Computer", "Hours", "GB hours of RAM"]} rows={shown()}>
          {(it) => <tr><td>{computers[it.computer_id]?.name ?? it.computer_id}</td><td>{hours(it.computer_hours)}</td><td>{hours(it.ram_gb_hours)}</td></tr>}
        </Table>
        <More />
      </Show>
    </>
  );
}

function RecordSpend(props: { open: boolean; client: string; onClose: () => void; onRecorded: () => void }) {
  const [entry, setEntry] = createSignal("");
  const [amount, setAmount] = createSignal("");
  const [note, setNote] = createSignal("");
  const isAmount = () => amount() !== "" && Number(amount()) >= 0;
  const record = async () => {
    const body = { entry_id: entry().trim(), amount_usd: Number(amount()), note: note().trim() || null };
    const answer = await attempt("The spend was not recorded", () =>
      answerOf(api.POST("/v1/accounts/{client_id}/spend", { params: { path: { client_id: props.client } }, body })));
    if (!answer) return false;
    notify({ text: `${answer.repeated ? "This entry was recorded before" : "Recorded"}: ${dollars(answer.ai_spend_usd)} this month`, tone: "good" });
    setEntry("");
    setAmount("");
    setNote("");
    props.onRecorded();
    return true;
  };
  return (
    <FormDialog open={props.open} title="Record AI spend" action="Record" disabled={entry().trim() === "" || !isAmount()}
      onClose={props.onClose} onSubmit={record}>
      <Field label="Entry" required maxLength={255} hint="Your own id of the cost, such as a bill's: an entry counts once" value={entry()}
        onInput={(event) => setEntry(event.currentTarget.value)} />
      <Field label="US dollars" type="number" required min="0" step="any" value={amount()} onInput={(event) => setAmount(event.currentTarget.value)} />
      <Field label="Note" maxLength={255} value={note()} onInput={(event) => setNote(event.currentTarget.value)} />
    </FormDialog>
  );
}
