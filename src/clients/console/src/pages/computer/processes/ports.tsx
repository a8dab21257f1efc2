// Ports of the computer, opened in another tab of the browser.

import ExternalLink from "lucide-solid/icons/external-link";
import { createSignal, Show } from "solid-js";
import { createFetched } from "../../../api/fetched";
import { answerOf, api } from "../../../api/service";
import { attempt, Button, Field, notify, Table } from "../../../ui";
import { FetchState } from "../../../ui/loaded";

/** Protocols that a browser cannot open. */
const NO_PAGES = ["udp"];

/** The declared ports, and a way to open any other. */
export function Ports(props: { computer: string }) {
  const [other, setOther] = createSignal("");
  const [fault, setFault] = createSignal<string>();
  const [busy, setBusy] = createSignal<number>();
  const list = createFetched(() => props.computer, async (id, signal) =>
    (await answerOf(api.GET("/computers/{id}/ports", { params: { path: { id } }, signal }))).ports);

  const open = async (port: number) => {
    // A browser opens tabs only at once; the page gets its address when the link is there.
    const tab = window.open("", "_blank");
    if (tab) tab.opener = null;
    setBusy(port);
    const params = { path: { id: props.computer } };
    const ticket = await attempt(`Port ${port} could not be opened`, () =>
      answerOf(api.POST("/computers/{id}/port-tickets", { params, body: { port } })));
    setBusy(undefined);
    if (!ticket) tab?.close();
    else if (tab) tab.location.replace(ticket.url);
    else notify({ text: "The browser opens no tab for this page", action: { label: "Open it here", run: () => location.assign(ticket.url) } });
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const port = Number(other());
    if (!Number.isInteger(port) || port < 1 || port > 65535) setFault("Enter a number from 1 to 65535");
    else void open(port);
  };
  return (
    <section aria-labelledby="processes-ports">
      <h2 id="processes-ports">Ports</h2>
      <FetchState of={list} what="the ports" />
      <Show when={list.value()}>
        {(ports) => (
          <Show when={ports().length > 0} fallback={<p class="dim">The computer's template declares none. Any other can be opened below.</p>}>
            <Table label="Ports" columns={["Port", "Program", "Protocol", "Access", "Actions"]} rows={ports()}>
              {(port) => (
                <tr>
                  <td><strong>{port.port}</strong></td>
                  <td>{port.name}</td>
                  <td>{port.protocol}</td>
                  <td>{port.public ? "public: whoever has the address" : "with a key or a link"}</td>
                  <td>
                    <Show when={!NO_PAGES.includes(port.protocol)}>
                      <Button aria-label={`Open port ${port.port}`} busy={busy() === port.port} onClick={() => void open(port.port)}>
                        <ExternalLink size={16} aria-hidden="true" />{busy() === port.port ? "Opening…" : "Open"}
                      </Button>
                    </Show>
                  </td>
                </tr>
              )}
            </Table>
          </Show>
        )}
      </Show>
      <form class="processes-port" onSubmit={submit} novalidate>
        <Field label="Another port" inputmode="numeric" hint="A web server of the computer opens in a new tab, for this browser alone."
          error={fault()} value={other()} onInput={(event) => { setFault(undefined); setOther(event.currentTarget.value); }} />
        <Button type="submit"><ExternalLink size={16} aria-hidden="true" />Open the port</Button>
      </form>
    </section>
  );
}
