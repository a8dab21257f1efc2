// Card of one computer: its picture, name, state, who is on it, and a menu.

import { Show } from "solid-js";
import { controls } from "../../api/live";
import type { Computer } from "../../api/service";
import { Menu, Since, StatusBadge } from "../../ui";
import { createInView } from "../../ui/visible";
import { holds } from "../computer/screen/actors";
import { BULK, fit, type Bulk } from "./bulk";
import { Thumbnail } from "./thumbnail";
import { State } from "./state";
import { insteadOfPicture } from "./words";

/** Operations of the menu, in their order. */
const OPERATIONS = ["start", "resume", "suspend", "stop", "delete"] as const satisfies readonly Bulk[];

/** What a card and a row need. */
export interface CardProps {
  computer: Computer;
  selected: boolean;
  onSelect: (selected: boolean) => void;
  onOperation: (operation: Bulk) => void;
}

/** What a card needs besides. */
interface PicturedProps extends CardProps {
  /** Pixels of its picture. */
  pixels: number;
}

/** Who is on the boot screen, in a sentence; undefined when nobody holds it. Control ends with a stop, which is not told. */
function holder(computer: Computer): string | undefined {
  if (computer.status !== "running") return undefined;
  const control = controls[`${computer.id}/default`];
  if (control?.help) return "An agent asks for help";
  return control?.holder ? holds(control.holder) : undefined;
}

function Operations(props: CardProps) {
  return (
    <Menu label={`Actions on ${props.computer.name}`} items={OPERATIONS
      .filter((operation) => fit([props.computer], operation).length > 0)
      .map((operation) => ({
        label: operation === "delete" ? "Delete…" : BULK[operation].label,
        danger: operation === "delete",
        separated: operation === "delete",
        onSelect: () => props.onOperation(operation),
      }))} />
  );
}

function Selection(props: CardProps) {
  return (
    <input type="checkbox" aria-label={`Select ${props.computer.name}`} checked={props.selected}
      onChange={(event) => props.onSelect(event.currentTarget.checked)} />
  );
}

const hardware = (computer: Computer) => `${computer.cpu} CPU, ${computer.ram} GB, ${computer.disk_size_gb} GB disk`;

/** A card of the grid. Its links are plain ones, which the router follows as well: an `A` also follows the address, for each card. */
export function Card(props: PicturedProps) {
  const [ref, inView] = createInView();
  const href = () => `/console/computers/${props.computer.id}`;
  return (
    <li class="fleet-card card" ref={ref}>
      <a class="fleet-picture" href={href()} tabindex="-1" aria-hidden="true">
        <Show when={inView()} fallback={<span class="fleet-words" />}><Thumbnail computer={props.computer} pixels={props.pixels} /></Show>
      </a>
      <div class="fleet-line">
        <Selection {...props} />
        <a class="fleet-name" href={href()}>{props.computer.name}</a>
        <StatusBadge status={props.computer.status} />
        <Operations {...props} />
      </div>
      <small>
        {props.computer.project_name} · {hardware(props.computer)}
        <Show when={props.computer.template_ref}>{(template) => <> · {template()}</>}</Show>
      </small>
      <Show when={holder(props.computer)}>{(words) => <small class="fleet-holder">{words()}</small>}</Show>
      {/* The last picture of a computer that does not answer says nothing of it. */}
      <Show when={props.computer.status === "running" && insteadOfPicture(props.computer)}>
        <small class="fleet-holder"><State computer={props.computer} otherwise="" /></small>
      </Show>
    </li>
  );
}

/** A row of the list. */
export function Row(props: CardProps) {
  return (
    <tr>
      <td><Selection {...props} /></td>
      <td><a href={`/console/computers/${props.computer.id}`}>{props.computer.name}</a></td>
      <td><StatusBadge status={props.computer.status} /></td>
      <td>
        <Show when={holder(props.computer)} fallback={<State computer={props.computer} otherwise="Nobody holds its screen" />}>
          {(words) => words()}
        </Show>
      </td>
      <td>{props.computer.project_name}</td>
      <td>{props.computer.template_ref ?? "Plain desktop"}</td>
      <td>{hardware(props.computer)}</td>
      <td><Since time={props.computer.created_at} /></td>
      <td><Operations {...props} /></td>
    </tr>
  );
}
