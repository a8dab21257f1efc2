// State of a computer, by colour and word.

/** A computer's status, such as `running`. */
export function StatusBadge(props: { status: string }) {
  return <span class="status" data-status={props.status}>{props.status}</span>;
}
