// Actions on a computer's life: start, stop, suspend, resume, restart, copy, move, delete.

import { useLocation, useNavigate } from "@solidjs/router";
import Pause from "lucide-solid/icons/pause";
import Play from "lucide-solid/icons/play";
import Square from "lucide-solid/icons/square";
import { createResource, createSignal, Show } from "solid-js";
import { createFetched } from "../../api/fetched";
import { answerOf, api, type Computer } from "../../api/service";
import { person } from "../../api/session";
import { attempt, Button, confirm, Menu, notify, valueOf } from "../../ui";
import { Copy, type Kind } from "./lifecycle/copy";
import { Move } from "./lifecycle/move";
import { can, DOING, keepsMemory, perform, PROGRESS, type Operation } from "./lifecycle/operations";

/** What must be asked before an operation, because it loses something. */
function question(computer: Computer, operation: Operation): Parameters<typeof confirm>[0] | undefined {
  const lost = "The programs that run end, and what is not saved in them is lost. The disk is kept.";
  if (operation === "restart") return { title: `Restart ${computer.name}?`, text: lost, action: "Restart" };
  if (operation === "stop" && computer.status === "suspended") {
    return { title: `Stop ${computer.name}?`, text: `Its saved memory is given up. ${lost}`, action: "Stop" };
  }
  return undefined;
}

/** The buttons. */
export function Lifecycle(props: { computer: Computer }) {
  const navigate = useNavigate();
  const location = useLocation();
  const [busy, setBusy] = createSignal<Operation | "delete">();
  const [copy, setCopy] = createSignal<Kind>();
  const [isMoving, setMoving] = createSignal(false);
  const [who] = createResource(person);
  // Only the operator moves computers, and only those of a cluster have a host.
  const hosts = createFetched(
    () => (valueOf(who)?.is_operator ? (props.computer.host ?? undefined) : undefined),
    (_, signal) => answerOf(api.GET("/operator/hosts", { signal })),
  );
  const hasOtherHosts = () => (hosts.value()?.hosts.length ?? 0) > 1;
  const is = (operation: Parameters<typeof can>[1]) => can(props.computer, operation) && busy() === undefined;
  const words = () => {
    const now = busy();
    if (now === "delete") return "Deleting it with its disk…";
    return PROGRESS[props.computer.status] ?? (now ? DOING[now] : undefined);
  };

  const run = async (operation: Operation) => {
    const computer = props.computer;
    const asked = question(computer, operation);
    if (asked && !(await confirm(asked))) return;
    setBusy(operation);
    await perform(computer, operation);
    setBusy(undefined);
  };
  const openMove = () => {
    setMoving(true);
    // What was fetched with the page may be old.
    void hosts.refetch();
  };
  const remove = async () => {
    const { id, name } = props.computer;
    const agreed = await confirm({
      title: `Delete ${name}?`,
      text: "The computer is deleted with its disk, its snapshots and its recordings. This cannot be undone.",
      action: "Delete",
    });
    if (!agreed) return;
    setBusy("delete");
    const done = await attempt(`${name} was not deleted`, () => answerOf(api.DELETE("/computers/{id}", { params: { path: { id } } })));
    setBusy(undefined);
    if (!done) return;
    notify({ text: `${name} is deleted.`, tone: "good" });
    if (location.pathname.startsWith(`/console/computers/${id}`)) navigate("/console");
  };

  return (
    <>
      <Show when={words()}>{(words) => <small role="status">{words()}</small>}</Show>
      <Show when={can(props.computer, "start")}>
        <Button look="primary" disabled={!is("start")} onClick={() => void run("start")}><Play size={16} aria-hidden="true" />Start</Button>
      </Show>
      <Show when={can(props.computer, "resume")}>
        <Button look="primary" disabled={!is("resume")} onClick={() => void run("resume")}><Play size={16} aria-hidden="true" />Resume</Button>
      </Show>
      <Show when={props.computer.status === "running" && keepsMemory(props.computer)}>
        <Button disabled={!is("suspend")} onClick={() => void run("suspend")}><Pause size={16} aria-hidden="true" />Suspend</Button>
      </Show>
      <Show when={can(props.computer, "stop")}>
        <Button disabled={!is("stop")} onClick={() => void run("stop")}><Square size={16} aria-hidden="true" />Stop</Button>
      </Show>
      <Menu label={`More about ${props.computer.name}`} items={[
        { label: "Restart", disabled: !is("restart"), onSelect: () => void run("restart") },
        { label: "Clone…", disabled: !is("clone"), separated: true, onSelect: () => setCopy("clone") },
        {
          label: keepsMemory(props.computer) ? "Fork…" : "Fork (this isolation copies no memory)",
          disabled: !is("fork"),
          onSelect: () => setCopy("fork"),
        },
        ...(hasOtherHosts() ? [{ label: "Move to another host…", disabled: busy() !== undefined, onSelect: () => openMove() }] : []),
        { label: "Save as template…", onSelect: () => navigate(`/console/computers/${props.computer.id}/settings`) },
        { label: "Delete…", danger: true, separated: true, disabled: !is("delete"), onSelect: () => void remove() },
      ]} />
      <Copy computer={props.computer} kind={copy()} onClose={() => setCopy(undefined)} />
      <Move computer={isMoving() ? props.computer : undefined} hosts={hosts.value()?.hosts ?? []} onClose={() => setMoving(false)} />
    </>
  );
}
